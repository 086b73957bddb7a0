"""Lenses and judgements on both databases."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from catalog_samples import LIBRARY, Clock, claimed, new_document

from app.catalog import SqlCatalog, judgements
from app.errors import ConflictError, InputError, UnknownCollectionError, UnknownDocumentError, UnknownLensError
from app.search.judgements import new_judgement, new_lens
from app.search.lenses import STARTERS, delete_lens, find_lens, lenses_of, resolve_lens
from app.types.documents import Judgement, Lens
from app.types.evaluation import JudgementSource
from app.types.search import Leg
from app.types.weights import MAX_TUNINGS, CrossValidation, WeightTuning

FEELING = Lens("same feeling", "Identify the feeling", None, "for letters")


def judged(document_id: str, **changes: object) -> Judgement:
    judgement = new_judgement(document_id, query="my card", instruction="Identify the intent", grade=3)
    return replace(judgement, **changes)  # type: ignore[arg-type]


def test_a_part_of_the_judgements_is_read_alone(catalog: SqlCatalog, ingested: Callable[..., str]) -> None:
    """However many come before it: an import may hold half a million."""
    for number in range(5):
        catalog.save_judgement(judged(ingested(f"{number}.txt"), query=f"query {number}"))
    every = all_judgements(catalog)
    assert catalog.judgements("library", limit=2, offset=2) == every[2:4]
    assert catalog.judgements("library", limit=10, offset=4) == every[4:]
    assert catalog.judgements("another", limit=10) == []


def all_judgements(catalog: SqlCatalog, collection: str = "library") -> list[Judgement]:
    return [judgement for page in catalog.judgement_pages(collection) for judgement in page]


def test_a_lens_is_replaced_by_one_of_its_name(catalog: SqlCatalog) -> None:
    catalog.save_lens(FEELING)
    catalog.save_lens(Lens("a topic", "Identify the topic", "Summarise", values=("land = earth", "sea")))
    catalog.save_lens(replace(FEELING, query_instruction="Identify the emotion", note=""))
    assert [lens.name for lens in catalog.lenses()] == ["a topic", "same feeling"]
    assert catalog.lens("same feeling") == Lens("same feeling", "Identify the emotion")
    assert catalog.lens("a topic").values == ("land = earth", "sea")


def test_lenses_are_limited_in_number_and_size(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every list of lenses holds all of them, of all users."""
    monkeypatch.setattr(judgements, "MAX_LENSES", 2)
    monkeypatch.setattr(judgements, "MAX_VALUE_CHARACTERS", 100)
    for name in ("one", "two", "two"):
        catalog.save_lens(Lens(name, "Which?", values=("x" * 30,)))
    with pytest.raises(ConflictError, match=r"There are 2 saved lenses, the maximum"):
        catalog.save_lens(Lens("three", "Which?"))
    with pytest.raises(ConflictError, match=r"would have 108 characters, of at most 100"):
        catalog.save_lens(Lens("two", "Which?", values=("x" * 70,)))
    monkeypatch.setattr(judgements, "MAX_VALUE_CHARACTERS", 10)
    catalog.save_lens(Lens("two", "Which one?", values=("x" * 29,)))  # of an earlier release: it may become smaller
    assert [len(lens.values[0]) for lens in catalog.lenses()] == [30, 29]


def test_a_lens_that_is_not_there_is_named_with_those_that_are(catalog: SqlCatalog) -> None:
    catalog.save_lens(FEELING)
    for ask in (catalog.lens, catalog.delete_lens):
        with pytest.raises(UnknownLensError, match=r"'mood'.*same feeling"):
            ask("mood")
    catalog.delete_lens("same feeling")
    assert catalog.lenses() == []


def test_starters_stand_beside_saved_lenses_and_can_be_replaced_but_not_deleted(catalog: SqlCatalog) -> None:
    starter = STARTERS[0]
    assert find_lens(catalog, starter.name) == starter
    with pytest.raises(InputError, match="is built in"):
        delete_lens(catalog, starter.name)

    catalog.save_lens(FEELING)
    own = replace(starter, query_instruction="Find answers")
    catalog.save_lens(own)
    assert lenses_of(catalog) == [own, FEELING, *STARTERS[1:]]
    assert resolve_lens(catalog, starter.name, None) == ("Find answers", ())
    delete_lens(catalog, starter.name)
    assert find_lens(catalog, starter.name) == starter
    with pytest.raises(UnknownLensError, match=r"same feeling.*Same topic"):
        find_lens(catalog, "elsewhere")


def test_starters_are_lenses_that_a_person_could_save() -> None:
    assert len({lens.name for lens in STARTERS}) == len(STARTERS)
    for lens in STARTERS:
        assert new_lens(lens.name, lens.query_instruction, note=lens.note, values=lens.values) == lens
        assert lens.note


def test_a_person_has_one_judgement_of_a_document_and_query(
    catalog: SqlCatalog, ingested: Callable[..., str], clock: Clock
) -> None:
    document_id = ingested()
    catalog.save_judgement(judged(document_id, judged_at=clock()))
    clock.advance(timedelta(days=1))
    last = judged(document_id, judged_at=clock(), grade=1)
    catalog.save_judgement(last)
    others = [judged(document_id, judged_at=clock(), **each) for each in ({"judged_by": "x"}, {"instruction": ""})]
    for other in others:
        catalog.save_judgement(other)
    assert sorted(map(repr, all_judgements(catalog))) == sorted(map(repr, [last, *others]))
    assert catalog.delete_judgement(others[0])
    assert not catalog.delete_judgement(others[0])
    assert len(all_judgements(catalog)) == 2


def test_the_same_judgement_given_twice_at_once_is_kept_once(catalog: SqlCatalog, ingested: Callable[..., str]) -> None:
    document_id = ingested()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda grade: catalog.save_judgement(judged(document_id, grade=grade)), [0, 1, 2, 3] * 4))
    assert len(all_judgements(catalog)) == 1


def test_judgements_go_with_their_document_and_stay_in_their_collection(
    catalog: SqlCatalog, ingested: Callable[..., str]
) -> None:
    catalog.create_collection(replace(LIBRARY, name="other", active_index="other--1"))
    first, second = ingested("a.txt"), ingested("b.txt")
    for number in range(3):
        for document_id in (first, second):
            catalog.save_judgement(judged(document_id, query=f"query {number}"))
    catalog.submit_delete(first)
    catalog.complete_delete(claimed(catalog))
    assert {(each.document_id, each.query) for each in all_judgements(catalog)} == {
        (second, f"query {number}") for number in range(3)
    }
    assert all_judgements(catalog, "other") == []
    with pytest.raises(UnknownDocumentError, match="to judge"):
        catalog.save_judgement(judged(first))


def test_many_judgements_come_page_by_page(
    catalog: SqlCatalog, ingested: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.catalog.judgements._PAGE", 2)
    documents = [ingested(f"{number}.txt") for number in range(2)]
    for number in range(5):
        catalog.save_judgement(judged(documents[number % 2], query=f"query {number}"))
    pages = list(catalog.judgement_pages("library"))
    assert [len(page) for page in pages] == [2, 2, 1]
    told = [judgement for page in pages for judgement in page]
    assert sorted(each.query for each in told) == [f"query {number}" for number in range(5)]
    assert [each.document_id for each in told] == sorted(each.document_id for each in told)


def test_an_import_takes_the_place_of_the_former_one_of_its_name(
    catalog: SqlCatalog, ingested: Callable[..., str]
) -> None:
    first, second = ingested("a.txt"), ingested("b.txt")
    person = judged(first)
    catalog.save_judgement(person)
    former = [judged(each, judged_by="import:x", query=query) for each in (first, second) for query in ("one", "two")]
    assert catalog.replace_judgements("library", "import:x", former) == 4
    assert catalog.judgement_sources("library") == [JudgementSource("import:x", 2, 4), JudgementSource("local", 1, 1)]

    later = [judged(first, judged_by="import:x", query="three", grade=grade) for grade in (1, 2)]
    assert catalog.replace_judgements("library", "import:x", later) == 1
    assert sorted(all_judgements(catalog), key=lambda each: each.judged_by) == [later[1], person]

    assert catalog.replace_judgements("library", "import:x", []) == 0
    assert all_judgements(catalog) == [person]


def test_an_import_that_cannot_be_kept_changes_nothing(catalog: SqlCatalog, ingested: Callable[..., str]) -> None:
    catalog.create_collection(replace(LIBRARY, name="other", active_index="other--1"))
    document_id = ingested()
    kept = judged(document_id, judged_by="import:x")
    catalog.replace_judgements("library", "import:x", [kept])
    for collection, strange in (("library", "no-such-document"), ("other", document_id)):
        with pytest.raises(ConflictError, match="judged documents are not"):
            catalog.replace_judgements(collection, "import:x", [judged(strange, judged_by="import:x")])
    with pytest.raises(UnknownCollectionError):
        catalog.replace_judgements("nowhere", "import:x", [])
    assert catalog.replace_judgements("other", "import:x", []) == 0  # of the other collection nothing is touched
    assert all_judgements(catalog) == [kept]
    assert catalog.judgement_sources("other") == []


def test_the_same_document_of_another_collection_is_found_by_uri_or_else_by_content(
    catalog: SqlCatalog, ingested: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.catalog.judgements._PAGE", 2)
    catalog.create_collection(replace(LIBRARY, name="other", active_index="other--1"))

    def add(collection: str, uri: str, content: str) -> str:
        return catalog.submit(collection, new_document(uri, content=content))[0].id

    by_uri, by_content, alone = add("library", "a", "a"), add("library", "b", "b"), add("library", "c", "c")
    same_uri, same_content = add("other", "a", "b"), add("other", "elsewhere", "b")
    found = catalog.counterparts([by_uri, by_content, alone, "unknown"], "other")
    assert found == {by_uri: same_uri, by_content: min(same_uri, same_content)}
    assert catalog.counterparts([by_uri, alone], "library") == {by_uri: by_uri, alone: alone}


def tuning(number: int, *, is_applied: bool, collection: str = "library") -> WeightTuning:
    validation = CrossValidation(8, 32, 5, 0.5, 0.6, 0.02)
    at = Clock().now + timedelta(minutes=number)
    weights = {Leg.FEEDBACK: 0.5, Leg.SPARSE: 0.5}
    return WeightTuning(f"tuning-{number:02}", collection, weights, validation, "ann", at, is_applied)


def test_at_most_one_tuning_is_applied_and_the_history_is_bounded(catalog: SqlCatalog) -> None:
    catalog.create_collection(LIBRARY)
    assert catalog.weights.applied("library") is None
    assert catalog.weights.applied("nowhere") is None
    first = tuning(0, is_applied=True)
    catalog.weights.save(first)
    assert catalog.weights.tunings("library") == [first]
    assert catalog.weights.applied("library") == first.weights
    for number in range(1, MAX_TUNINGS + 5):
        catalog.weights.save(tuning(number, is_applied=False))
    kept = catalog.weights.tunings("library")
    assert kept[0].id == f"tuning-{MAX_TUNINGS + 4}"
    assert kept[-1] == first  # which is applied, however old it is
    assert len(kept) == MAX_TUNINGS + 1
    catalog.weights.save(tuning(90, is_applied=True))
    assert [each.id for each in catalog.weights.tunings("library") if each.is_applied] == ["tuning-90"]


def test_undoing_goes_back_to_the_defaults_and_keeps_the_history(catalog: SqlCatalog) -> None:
    catalog.create_collection(LIBRARY)
    assert catalog.weights.undo("library") is None
    catalog.weights.save(tuning(1, is_applied=True))
    undone = catalog.weights.undo("library")
    assert undone is not None
    assert undone.undone_at is not None
    assert catalog.weights.applied("library") is None
    assert catalog.weights.tunings("library") == [undone]
    for ask in (catalog.weights.tunings, catalog.weights.undo):
        with pytest.raises(UnknownCollectionError):
            ask("nowhere")
    with pytest.raises(UnknownCollectionError):
        catalog.weights.save(tuning(1, is_applied=True, collection="nowhere"))
    catalog.weights.save(tuning(2, is_applied=True))
    catalog.delete_collection("library")
    assert catalog.weights.applied("library") is None


def test_what_one_person_says_of_a_collection_is_bounded(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.catalog.judgements.MAX_JUDGEMENTS", 2)
    catalog.create_collection(LIBRARY)
    document, _ = catalog.submit("library", new_document())
    for query in ("a", "b"):
        catalog.save_judgement(judged(document.id, query=query))
    with pytest.raises(ConflictError, match="the maximum"):
        catalog.save_judgement(judged(document.id, query="c"))
    catalog.save_judgement(judged(document.id, query="b", grade=0))  # in the place of the former one
    catalog.save_judgement(judged(document.id, query="c", judged_by="another"))
    assert catalog.delete_judgement(judged(document.id, query="a"))
    catalog.save_judgement(judged(document.id, query="c"))
    assert len(all_judgements(catalog)) == 3


def test_what_one_person_says_is_bounded_in_size(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of the list may hold all of it."""
    monkeypatch.setattr("app.catalog.judgements.MAX_JUDGED_CHARACTERS", 1_500)
    catalog.create_collection(LIBRARY)
    document, _ = catalog.submit("library", new_document())
    catalog.save_judgement(judged(document.id, query="a" * 1_000))
    with pytest.raises(ConflictError, match="the maximum"):
        catalog.save_judgement(judged(document.id, query="b" * 1_000))
    catalog.save_judgement(judged(document.id, query="a" * 1_000, grade=0))
    catalog.save_judgement(judged(document.id, query="b" * 1_000, judged_by="another"))
    assert len(all_judgements(catalog)) == 2
