"""Files of judgements: every layout that people have, and what is wrong with the others."""

from __future__ import annotations

import contextlib
import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import InputError, NotFoundError
from app.evaluation.qrels import MAX_LINE_BYTES, find_judgement_files, read_judgements
from app.types.evaluation import JudgementFile, NamedJudgement

QUERIES = '{"_id": "q1", "text": " late card ", "instruction": "Same topic."}\n{"_id": 2, "text": "fees"}\n'
LATE = NamedJudgement("late card", "Same topic.", "d1", 2.0)
FEES = NamedJudgement("fees", "", "d/2", 0.0)


def given_files(*contents: str | bytes) -> list[JudgementFile]:
    data = (each.encode() if isinstance(each, str) else each for each in contents)
    return [JudgementFile(f"file-{number}", io.BytesIO(each)) for number, each in enumerate(data, start=1)]


@pytest.mark.parametrize(
    "qrels",
    [
        "query-id\tcorpus-id\tscore\nq1\td1\t2\n2\td/2\t0\n",
        "q1\td1\t2\n2\td/2\t0\n",
        "q1 0 d1 2\n2 Q0 d/2 0\n",
        '{"qid": "q1", "did": "d1", "score": 2}\n\n{"query-id": 2, "corpus-id": "d/2", "score": "0"}',
        "\ufeffqid,docno,rel\r\nq1,d1,2\r\n2,d/2,0\r\n",
        gzip.compress(b"q1 0 d1 2\n2 Q0 d/2 0\n"),
    ],
    ids=["beir", "headless", "trec", "jsonl", "csv", "gzip"],
)
def test_qrels_are_joined_with_their_queries(qrels: str | bytes) -> None:
    for files in (given_files(QUERIES, qrels), given_files(qrels, QUERIES)):
        assert read_judgements(files).judgements == (LATE, FEES)


@pytest.mark.parametrize("queries", ["q1\tlate card\n2\tfees\n", "id,text\nq1,late card\n2,fees\n"])
def test_queries_may_be_a_table(queries: str) -> None:
    read = read_judgements(given_files(queries, "q1 0 d1 2"))
    assert read.judgements == (NamedJudgement("late card", "", "d1", 2.0),)


def test_a_table_of_queries_and_documents_needs_no_other_file() -> None:
    table = 'query;document;grade;instruction\n"late; ""card""";d1;3;Same topic.\nfees;d/2;;\n'
    assert read_judgements(given_files(table)).judgements == (
        NamedJudgement('late; "card"', "Same topic.", "d1", 3.0),
        NamedJudgement("fees", "", "d/2", 1.0),
    )
    assert read_judgements(given_files('{"query": "fees", "uri": "d/2", "grade": 0}')).judgements == (FEES,)


def test_an_instruction_stands_before_those_of_the_files() -> None:
    read = read_judgements(given_files(QUERIES, "q1 0 d1 2"), instruction="Same feeling. ")
    assert read.judgements == (NamedJudgement("late card", "Same feeling.", "d1", 2.0),)
    assert read_judgements(given_files(QUERIES, "q1 0 d1 2"), instruction="").judgements[0].instruction == ""


def test_judged_queries_without_a_text_are_named() -> None:
    read = read_judgements(given_files(QUERIES, "q1 0 d1 2\nq9 0 d1 1\nq9 0 d2 1\n"))
    assert read.judgements == (LATE,)
    assert read.unknown_queries == ("q9",)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ([], "no judgements"),
        ([""], "no judgements"),
        ([QUERIES], "no judgements"),
        (["q1 0 d1 2\n"], "None of the judged queries has a text"),
        ([QUERIES, "q1 0 d1 2\nq1 d1 2\n"], "file-2, line 2: 3 columns"),
        ([QUERIES, "qid,docno,rel\nq1,d1,much\n"], "file-2, line 2: The grade 'much'"),
        ([QUERIES, "qid,docno,rel\nq1,d1,nan\n"], "not a number"),
        ([QUERIES, '{"qid": "q1"'], "file-2, line 1: not JSON"),
        ([QUERIES, '{"qid": "q1"}\n[1]'], "file-2, line 1: This is neither"),
        ([QUERIES, '{"_id": "q1", "title": "A corpus", "text": "…"}'], "'q1' has two different texts"),
        ([QUERIES, "Dear reader,\nthis is a letter.\n"], "file-2"),
        ([QUERIES, "q1 0 d\ufffd 2".encode("utf-16")], "not UTF-8"),
        ([QUERIES, b"\x1f\x8b broken"], "file-2 cannot be read"),
        ([QUERIES, "x" * (MAX_LINE_BYTES + 1)], "too long at line 1"),
        (['{"query": "a\\u0000b", "document": "d1"}'], "NUL"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(contents: list[str | bytes], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_judgements(given_files(*contents))


def test_a_small_file_that_unpacks_to_a_huge_one_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.evaluation.qrels.MAX_BYTES", 100_000)
    packed = gzip.compress(b"q1 0 d1 2\n" * 100_000)
    with pytest.raises(InputError, match="too long"):
        read_judgements(given_files(QUERIES, packed))
    monkeypatch.setattr("app.evaluation.qrels.MAX_JUDGEMENTS", 100)
    with pytest.raises(InputError, match="more than 100 judgements"):
        read_judgements(given_files(QUERIES, packed))


@settings(deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_file_breaks_the_reader(content: bytes) -> None:
    with contextlib.suppress(InputError):
        read_judgements(given_files(QUERIES, content))


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(), st.text(), st.integers(-2, 9)), max_size=20))
def test_whatever_was_written_as_csv_is_read(rows: list[tuple[str, str, int]]) -> None:
    def is_usable(text: str) -> bool:
        return bool(text.strip()) and text.isprintable()

    usable = [(query.strip(), document, grade) for query, document, grade in rows if is_usable(query + "x" + document)]
    usable = [each for each in usable if all(map(is_usable, each[:2]))]
    cells = [[query, document, str(grade)] for query, document, grade in usable]
    quoted = ['"' + '","'.join(cell.replace('"', '""') for cell in row) + '"' for row in cells]
    files = given_files("\n".join(["query,document,grade", *quoted]))
    if usable:
        found = [(each.query, each.document, each.grade) for each in read_judgements(files).judgements]
        assert found == usable


@pytest.fixture
def beir_folder(tmp_path: Path) -> Path:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "queries.jsonl").write_text(QUERIES)
    (tmp_path / "corpus.jsonl").write_text('{"_id": "q1", "text": "a document"}')
    for split in ("test", "dev"):
        (tmp_path / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\nq1\t{split}\t1\n")
    return tmp_path


@pytest.mark.parametrize(("split", "document"), [(None, "test"), ("dev", "dev")])
def test_of_a_folder_one_split_is_taken(beir_folder: Path, split: str | None, document: str) -> None:
    found = find_judgement_files(beir_folder, split=split)
    opened = [JudgementFile(each.name, io.BytesIO(each.read_bytes())) for each in found]
    assert [each.document for each in read_judgements(opened).judgements] == [document]


def test_a_split_that_is_not_there_is_refused(beir_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'train'.*dev, test"):
        find_judgement_files(beir_folder, split="train")
    with pytest.raises(NotFoundError):
        find_judgement_files(tmp_path / "nowhere")
    with pytest.raises(InputError, match="folder"):
        find_judgement_files(beir_folder / "queries.jsonl", split="train")


def test_the_queries_beside_a_file_of_qrels_are_found(tmp_path: Path) -> None:
    for name in ("ir.x.qrels.jsonl.gz", "ir.x.queries.jsonl.gz", "alone.txt"):
        (tmp_path / name).write_bytes(b"")
    assert [each.name for each in find_judgement_files(tmp_path / "ir.x.qrels.jsonl.gz")] == [
        "ir.x.queries.jsonl.gz",
        "ir.x.qrels.jsonl.gz",
    ]
    assert find_judgement_files(tmp_path / "alone.txt") == [tmp_path / "alone.txt"]
