"""Judged queries of a real catalog: what people said, and imports whose documents are found by what they are called."""

from __future__ import annotations

import io
from typing import Any

import pytest

from app.errors import ConflictError, InputError, NotFoundError, UnknownCollectionError
from app.evaluation.judged import Judged, name_of_import
from app.search.judgements import new_judgement
from app.testing import text_source
from app.types.evaluation import JudgedQuery, JudgementFile, JudgementSource


@pytest.fixture
def judged(toy_services: Any) -> Judged:
    toy_services.services.library.ensure_collection("library")
    return Judged(toy_services.services.catalog)


@pytest.fixture
def add(toy_services: Any) -> Any:
    def add(uri: str, **metadata: str | int) -> str:
        document, _ = toy_services.services.library.add_document("library", text_source(uri, uri, metadata=metadata))
        return str(document.id)

    return add


def table(*rows: str) -> list[JudgementFile]:
    return [JudgementFile("table.csv", io.BytesIO("\n".join(["query,document,grade", *rows]).encode()))]


def test_each_document_is_found_by_its_closest_name(judged: Judged, add: Any) -> None:
    uri, own_id, number = add("notes://a"), add("notes://x/y", _id="a b"), add("notes://z", id=7)
    row, file = add("file:///rows.jsonl#late%2Fcard"), add("upload://letter.txt")
    add("notes://other/letter")  # whose last part fits better than a file's without its ending
    report = judged.import_files(
        "library",
        table("one,notes://a,1", "one,a b,2", "one,7,3", "one,late/card,0", "two,letter.txt,1", "two,letter,1"),
        name="mine",
    )
    assert (report.query_count, report.judgement_count, report.document_count) == (2, 6, 6)
    one, two = judged.queries("library")
    assert one == JudgedQuery("one", "", {uri: 1, own_id: 2, number: 3, row: 0})
    assert one.relevant_count == 3
    assert two.grades.keys() > {file}


def test_what_fits_nothing_or_several_documents_is_counted_and_named(judged: Judged, add: Any) -> None:
    kept = add("notes://kept")
    for folder in "ab":
        add(f"notes://{folder}/twice")
    rows = ["q,kept,1", "q,twice,1", *[f"q,gone-{number:02},1" for number in range(12)]]
    report = judged.import_files("library", table(*rows), name="mine")
    assert report.judgement_count == 1
    assert (report.ambiguous_count, report.ambiguous) == (1, ("twice",))
    assert report.unmatched_count == 12
    assert report.unmatched == tuple(f"gone-{number:02}" for number in range(10))
    assert judged.queries("library") == [JudgedQuery("q", "", {kept: 1})]


def test_grades_of_another_scale_are_brought_to_ours(judged: Judged, add: Any) -> None:
    documents = {name: add(f"notes://{name}") for name in "abcde"}
    rows = [f"q,{name},{grade}" for name, grade in zip("abcde", (-1, 0, 1, 50, 100), strict=True)]
    report = judged.import_files("library", table(*rows), name="percent")
    assert report.scaled_from == 100
    (query,) = judged.queries("library")
    assert query.grades == dict(zip(documents.values(), (0, 0, 1, 2, 3), strict=True))
    report = judged.import_files("library", table("q,a,3", "q,b,0.4"), name="percent")
    assert report.scaled_from is None
    assert judged.queries("library")[0].grades == {documents["a"]: 3, documents["b"]: 1}


def test_people_and_imports_are_kept_apart_and_agree_on_the_mean(judged: Judged, add: Any, toy_services: Any) -> None:
    document = add("notes://a")
    for person, grade in (("local", 0), ("ann", 1)):
        said = new_judgement(document, query="q", instruction="", grade=grade, judged_by=person)
        toy_services.services.catalog.save_judgement(said)
    judged.import_files("library", table("q,a,3", "other,a,1"), name="x")
    assert judged.sources("library") == [
        JudgementSource("ann", 1, 1),
        JudgementSource("import:x", 2, 2),
        JudgementSource("local", 1, 1),
    ]
    assert [each.is_import for each in judged.sources("library")] == [False, True, False]
    by_all = {each.query: each.grades[document] for each in judged.queries("library")}
    assert by_all == {"q": 1, "other": 1}  # (0 + 1 + 3) / 3 = 1.33
    (by_people,) = judged.queries("library", judged_by=["local", "ann"])
    assert by_people.grades == {document: 1}  # a half is rounded up

    assert judged.forget_import("library", "import:x") == 2
    assert [each.judged_by for each in judged.sources("library")] == ["ann", "local"]
    with pytest.raises(NotFoundError, match="none"):
        judged.forget_import("library", "import:x")
    with pytest.raises(ConflictError, match="not an import"):
        judged.forget_import("library", "local")


def test_an_import_of_which_nothing_can_be_kept_is_refused(judged: Judged, add: Any) -> None:
    add("notes://a")
    judged.import_files("library", table("q,a,1"), name="x")
    with pytest.raises(InputError, match=r"None of the 2 judged documents .*gone, lost"):
        judged.import_files("library", table("q,gone,1", "q,lost,1"), name="x")
    assert judged.sources("library") == [JudgementSource("import:x", 1, 1)]
    with pytest.raises(UnknownCollectionError):
        judged.import_files("elsewhere", table("q,a,1"), name="x")
    for name in ("", "two\nlines", "x" * 81, "nul\0"):
        with pytest.raises(InputError):
            judged.import_files("library", table("q,a,1"), name=name)


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["queries.jsonl", "test.tsv"], "test"),
        (["/data/ir.papers.queries.jsonl.gz", "ir.papers.qrels.jsonl.gz"], "ir.papers"),
        (["queries.jsonl", "qrels.txt"], "import"),
        (["my judgements.csv"], "my judgements"),
    ],
)
def test_an_import_goes_by_what_its_files_are_called(names: list[str], wanted: str) -> None:
    assert name_of_import([JudgementFile(name, io.BytesIO()) for name in names]) == wanted
