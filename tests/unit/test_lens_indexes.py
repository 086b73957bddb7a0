"""Lens indexes: built in the background, kept by ingestion, used by searches, stale when lens or collection change."""

from __future__ import annotations

import csv
import io
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from patience import PATIENCE_S, wait_until
from qdrant_servers import new_index

from app.collections.lens_indexes import MOST_OF_COLLECTION
from app.collections.lens_indexing import LensIndexer, queue_outdated, read_ahead
from app.errors import ConflictError, InputError, LeaseLostError, NotFoundError, UnknownCollectionError
from app.maintenance.archive_records import ChunkLine
from app.maintenance.reindex import Reindexer
from app.search.judgements import new_lens
from app.search.label_tables import RENEW_AFTER, LabelTables
from app.search.value_labels import ValueLabels
from app.search.value_reader import ValueReader
from app.search.value_search import COUNTS_AGE_S, ValueSearch
from app.search.value_syntax import parse_values
from app.types.documents import GarbageKind, IndexRole, Job, JobKind, JobState, NewDocument
from app.types.lens_indexes import LABELS_VERSION, LensIndexState
from app.types.search import SearchMode, SearchRequest, SearchResult
from app.types.upkeep import ContractChange
from app.types.values import OTHER, ValueScope
from ui.render.lens_values import render_lens_index, render_value_counts

__all__ = ["new_index"]  # a fixture: the tests run against a server, too

_LEASE = timedelta(seconds=60)
ANIMALS = ("cat = kitten, tomcat", "dog", "horse")
TEXTS = ("the cat sleeps", "a kitten plays", "the dog barks", "a horse and a cart", "interest rates rise")


@pytest.fixture(autouse=True)
def counts_are_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.search.value_search._LOOK_S", 0.0)


@pytest.fixture
def zoo(toy_services: Any) -> Any:
    for text in TEXTS:
        toy_services.add(text)
    toy_services.services.catalog.save_lens(new_lens("animals", "Which animal is it about?", values=ANIMALS))
    return toy_services


def build(zoo: Any, lens: str = "animals") -> Any:
    zoo.services.lens_indexes.build("library", lens)
    zoo.work_off()
    return status(zoo, lens)


def status(zoo: Any, lens: str = "animals") -> Any:
    return next(each for each in zoo.services.lens_indexes.status("library") if each.lens == lens)


def search(zoo: Any, query: str, values: tuple[str, ...] = ANIMALS, **more: Any) -> SearchResult:
    request = SearchRequest(query, "library", "", values=parse_values(values), **more)
    found: SearchResult = zoo.services.search.search(request, highlight=False)
    return found


def counts(result: SearchResult) -> dict[str, int]:
    assert result.values is not None
    return {each.name: each.count for each in result.values.counts if each.count}


def names(result: SearchResult) -> list[tuple[str, str]]:
    return [(hit.chunk.text, hit.value.name if hit.value else "") for hit in result.hits]


def test_labels_know_what_passages_say(zoo: Any) -> None:
    """By the build and by ingestion: for the toy model *horses* is another word than *horse*."""
    zoo.add("two horses, fast asleep")
    build(zoo)
    zoo.add("three horses, wide awake")
    assert counts(search(zoo, "the dog")) == {"cat": 2, "dog": 1, "horse": 3, OTHER: 1}


def test_what_ingestion_adds_is_counted_with_the_rest(zoo: Any) -> None:
    assert build(zoo).chunks == len(TEXTS)
    zoo.add("the kitten sleeps")
    assert status(zoo).chunks == len(TEXTS) + 1


def labels_of(zoo: Any) -> dict[str, int]:
    """Number of its value by text, as the points have them."""
    services = zoo.services
    collection = services.catalog.collection("library")
    [known] = services.catalog.lens_indexes.of_collection("library")
    index = services.index
    points = index.retrieve(collection.active_index, list(index.point_ids(collection.active_index)))
    field = known.field_in(collection)
    return {str(each.payload["page_content"]): each.payload[field]["value"] for each in points if field in each.payload}


def test_a_built_index_answers_as_the_search_does_without_it(zoo: Any) -> None:
    asked: list[dict[str, Any]] = [{}, {"value": "cat"}, {"value": OTHER}, *({"mode": mode} for mode in SearchMode)]
    before = [search(zoo, "the tomcat", **each) for each in asked]
    assert build(zoo).state is LensIndexState.READY
    for former, each in zip(before, asked, strict=True):
        found = search(zoo, "the tomcat", **each)
        assert former.values is not None
        assert found.values is not None
        assert (former.values.scope, found.values.scope) == (ValueScope.CANDIDATES, ValueScope.COLLECTION)
        assert counts(found) == {"cat": 2, "dog": 1, "horse": 1, OTHER: 1}
        assert found.values.passages == len(TEXTS)
        assert found.values.query == former.values.query == "cat"
        if each.get("mode") is not SearchMode.SPARSE:  # which finds one passage, and its value two
            assert names(found) == names(former)
        kept = {hit.chunk.text: hit for hit in former.hits}
        for hit in found.hits:
            if hit.chunk.text in kept:
                value, was = hit.value, kept[hit.chunk.text].value
                assert value is not None
                assert was is not None
                assert value.probability == pytest.approx(was.probability, abs=1e-3)
                assert value.similarity == pytest.approx(was.similarity, abs=1e-3)


def test_labels_keep_numbers_and_distributions() -> None:
    labels = ValueLabels(np.array([2, 0]), np.array([[0.25, 0.75], [0.1, 0.9]], dtype=np.float32))
    read = ValueLabels.of_payloads(labels.payloads(), 2)
    assert read.numbers.tolist() == [2, 0]
    assert read.probabilities == pytest.approx(labels.probabilities, abs=1e-3)
    assert ValueLabels.of_payloads([], 2).probabilities.shape == (0, 2)


def test_searches_see_chunks_that_no_leg_would_have_found(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        zoo.add(f"the dog barks at number {number}")
    monkeypatch.setattr("app.search.retrieval.VALUE_CANDIDATES", 5)
    monkeypatch.setattr("app.search.retrieval.CANDIDATES", 5)
    monkeypatch.setattr("app.search.service.DEPTHS", (1,))
    query = "the dog barks at a kitten"
    few = {"limit": 2, "mode": SearchMode.DENSE, "fold_duplicates": False, "prefer_prose": False}
    assert search(zoo, query, value="cat", **few).hits == ()
    assert build(zoo).chunks == len(TEXTS) + 30
    found = search(zoo, query, value="cat", **few)
    assert {text for text, _ in names(found)} == {"a kitten plays", "the cat sleeps"}
    assert counts(found) == {"cat": 2, "dog": 31, "horse": 1, OTHER: 1}
    for mode in SearchMode:  # the query's own value is looked for, though others come before it
        result = search(zoo, "a kitten kitten and the dog barks at number 7 at number 8", limit=10, mode=mode)
        assert result.values is not None
        assert result.values.query == "cat"
        assert "a kitten plays" in {text for text, _ in names(result)}


def test_counts_are_of_what_the_filters_leave(zoo: Any) -> None:
    zoo.add("one more dog", metadata={"year": 1999})
    build(zoo)
    found = search(zoo, "cat", filters={"year": "1999"})
    assert counts(found) == {"dog": 1}
    assert found.values is not None
    assert found.values.passages == 1


def test_counts_of_a_collection_are_kept_for_seconds(zoo: Any) -> None:
    build(zoo)
    services, now = zoo.services, 0.0
    values = ValueSearch(
        services.catalog.lens_indexes, services.index, ValueReader(services.embedder), clock=lambda: now
    )
    collection = services.catalog.collection("library")
    field = services.catalog.lens_indexes.of_collection("library")[0].field_in(collection)
    request = SearchRequest("cat", "library", values=parse_values(list(ANIMALS)))

    def counted() -> Mapping[int, int]:
        return values._counted(collection.active_index, field, request.filters)

    before = counted()
    ids = list(services.index.point_ids(collection.active_index))
    payloads = services.index.payloads(collection.active_index, ids)
    first = next(each for each, payload in payloads.items() if payload[field]["value"] == 0)  # type: ignore[index, call-overload]
    services.index.set_labels(collection.active_index, field, {first: {"value": 2, "p": ""}})  # as if it were edited
    assert counted() == before
    now = COUNTS_AGE_S
    assert counted() == before  # a search does not wait for new ones
    wait_until(lambda: counted() != before)
    services.index.set_labels(collection.active_index, field, {first: {"value": 0, "p": ""}})
    now += 100  # too old to be shown
    assert counted() == before
    now += 1
    zoo.add("the kitten sleeps")  # another number of chunks is another collection
    assert sum(counted().values()) == len(TEXTS) + 1


@pytest.mark.parametrize("is_built", [False, True])
def test_what_was_read_once_is_remembered_and_few_texts_are_fetched(
    zoo: Any, monkeypatch: pytest.MonkeyPatch, is_built: bool
) -> None:
    for number in range(60):
        zoo.add(f"the dog barks at number {number}")
    if is_built:
        build(zoo)
    monkeypatch.setattr(
        LabelTables, "get", lambda *_: None
    )  # as before the table has been read, or where it is too large
    index, asked = zoo.services.index, {}

    def watch(name: str) -> None:
        call = getattr(index, name)
        monkeypatch.setattr(
            index, name, lambda *args, **more: asked.setdefault(name, []).append(args) or call(*args, **more)
        )

    for name in ("owned_vectors", "owned_labels", "payloads"):
        watch(name)
    first = search(zoo, "the dog barks", limit=3, fold_duplicates=False, prefer_prose=False)
    [(_, *_, read)] = asked.pop("owned_labels" if is_built else "owned_vectors")
    assert len(read) > 60  # of all candidates
    assert not asked.keys() & {"owned_vectors", "owned_labels"}
    assert [len(ids) for _, ids in asked["payloads"]] == [3]
    asked.clear()
    again = search(zoo, "the dog barks", limit=3, fold_duplicates=False, prefer_prose=False)
    assert [(name, [len(ids) for _, ids in each]) for name, each in asked.items()] == [("payloads", [3])]
    assert (again.hits, again.values) == (first.hits, first.values)
    document = first.hits[0].document.id
    zoo.services.library.delete_document(document)  # no worker has come to it yet
    hits = search(zoo, "the dog barks", limit=3, fold_duplicates=False, prefer_prose=False).hits
    assert document not in {hit.document.id for hit in hits}
    assert len(hits) == 3


def test_labels_are_asked_for_once_and_for_all(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    build(zoo)
    first = search(zoo, "the dog")
    tables = zoo.services.search._value_search._tables
    wait_until(lambda: tables._tables)

    def refuse(*_: object) -> None:
        raise AssertionError("asked for again")

    with monkeypatch.context() as patched:
        for name in ("owned_labels", "owned_vectors", "all_labels"):
            patched.setattr(zoo.services.index, name, refuse)
        again = search(zoo, "the dog")
        assert (again.hits, again.values) == (first.hits, first.values)
        assert search(zoo, "a horse").values is not None
    zoo.add("the kitten sleeps")  # no table has it yet
    found = search(zoo, "the kitten", limit=3)
    assert names(found)[0] == ("the kitten sleeps", "cat")
    assert counts(found) == {"cat": 3, "dog": 1, "horse": 1, OTHER: 1}


def test_tables_of_labels_take_so_much_room_and_are_read_anew_when_much_is_new() -> None:
    ids = [str(uuid.uuid5(uuid.NAMESPACE_OID, str(at))) for at in range(100)]
    labels = ValueLabels(np.arange(100) % 3, np.tile(np.float32([0.25, 0.75]), (100, 1))).payloads()
    index: Any = SimpleNamespace(count=lambda _: 100, all_labels=lambda *_: iter([dict(zip(ids, labels, strict=True))]))
    now = 0.0
    tables = LabelTables(index, most_bytes=4_200, clock=lambda: now)
    assert tables.get("i", "f", 2) is None
    wait_until(lambda: tables._tables)
    table = tables.get("i", "f", 2)
    assert table is not None
    assert table.byte_count == 100 * (16 + 1 + 2 * 2)
    rows = table.rows_of([ids[7], str(uuid.UUID(int=7)), ids[99]])
    assert rows[1] == -1
    assert table.labels.at(rows[[0, 2]]).numbers.tolist() == [1, 0]
    assert table.rows_of([ids[7], "12"]).tolist() == [-1, -1]  # one is no UUID: they are asked for singly
    tables.get("i", "other", 2)
    wait_until(lambda: ("i", "other") in tables._tables)
    assert len(tables._tables) == 2
    tables.get("i", "f", 2)
    tables.get("i", "third", 2)
    wait_until(lambda: ("i", "third") in tables._tables)
    assert set(tables._tables) == {("i", "f"), ("i", "third")}  # the one that was not asked for made room
    ids.append(str(uuid.UUID(int=1000)))
    labels.append(labels[0])
    tables.note_missed("i", "f", RENEW_AFTER)
    tables.get("i", "f", 2)
    wait_until(lambda: len(tables._tables["i", "f"].keys) == 101)
    many = LabelTables(SimpleNamespace(count=lambda _: 10**9), most_bytes=4_200)  # type: ignore[arg-type]
    assert many.get("i", "f", 2) is None
    wait_until(lambda: many._not_before)
    assert many.get("i", "f", 2) is None
    assert not many._loading


def test_no_more_of_a_value_are_looked_for_where_enough_were_found(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        zoo.add(f"the dog barks at number {number}")
    build(zoo)
    index, labels = zoo.services.index, []
    call = index.search
    monkeypatch.setattr(index, "search", lambda *args, **more: labels.append(more.get("label")) or call(*args, **more))
    search(zoo, "the dog barks", mode=SearchMode.DENSE)
    assert labels[-1] is not None  # 21 are there
    labels.clear()
    monkeypatch.setattr("app.search.retrieval.PREDICTED_CANDIDATES", 15)
    search(zoo, "the dog barks", mode=SearchMode.DENSE)
    assert labels == [None]


def test_other_values_are_read_from_candidates(zoo: Any) -> None:
    build(zoo)
    for values in (("cat", "dog", "horse"), tuple(reversed(ANIMALS))):
        found = search(zoo, "cat", values)
        assert found.values is not None
        assert found.values.scope is ValueScope.CANDIDATES


def test_ingestion_labels_what_it_writes(zoo: Any) -> None:
    build(zoo)
    before = len(zoo.services.catalog.jobs())
    document = zoo.add("my tomcat purrs")
    assert labels_of(zoo)["my tomcat purrs"] == 0
    assert counts(search(zoo, "cat")) == {"cat": 3, "dog": 1, "horse": 1, OTHER: 1}
    zoo.services.library.delete_document(document.id)
    zoo.work_off()
    assert counts(search(zoo, "cat"))["cat"] == 2
    assert len(zoo.services.catalog.jobs()) == before + 2  # none of them of the lens index


def test_new_metadata_leaves_labels(zoo: Any) -> None:
    build(zoo)
    document = zoo.services.catalog.documents("library")[0]
    zoo.services.catalog.submit("library", _again(document, {"year": 2001}))
    zoo.work_off()
    assert counts(search(zoo, "cat", filters={"year": "2001"})) == {"cat": 1}


def _again(document: Any, metadata: dict[str, Any]) -> Any:
    return NewDocument(
        document.uri, document.title, document.media_type, document.content_hash, document.byte_count, metadata
    )


def test_one_queued_while_points_are_written_has_them(zoo: Any) -> None:
    """The write read which indexes there are before this one was there, and ends after its build has."""
    services = zoo.services
    indexer = LensIndexer(catalog=services.catalog, index=services.index, embedder=services.embedder)
    collection = services.catalog.collection("library")
    upsert = services.index.upsert
    [found] = [each for each in services.catalog.documents("library") if each.uri == "text://0"]
    [chunk] = services.catalog.chunks(found.id)
    [point] = services.index.retrieve(collection.active_index, [chunk.id])
    services.index.delete_points(collection.active_index, [chunk.id])

    def upsert_late(index: str, points: Any) -> None:
        build(zoo)
        upsert(index, points)

    services.index.upsert = upsert_late
    try:
        indexer.upsert(collection, [point])
    finally:
        services.index.upsert = upsert
    assert labels_of(zoo)["the cat sleeps"] == 0


class Killed(BaseException):
    pass


def test_a_build_that_was_killed_goes_on_where_it_was(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("app.testing", "app.vectors.labels"):
        monkeypatch.setattr(f"{module}.UNLABELLED_PAGE", 2)
    services = zoo.services
    services.lens_indexes.build("library", "animals")
    set_labels, written = services.index.set_labels, []

    def die_at_the_second(index: str, field: str, labels: Any) -> None:
        if len(written) == 1:
            raise Killed
        written.append(labels)
        set_labels(index, field, labels)

    monkeypatch.setattr(services.index, "set_labels", die_at_the_second)
    with pytest.raises(Killed):
        zoo.work_off()
    assert (len(labels_of(zoo)), status(zoo).state) == (2, LensIndexState.BUILDING)
    assert search(zoo, "cat").values.scope is ValueScope.CANDIDATES  # type: ignore[union-attr]
    again: list[Any] = []
    monkeypatch.setattr(
        services.index, "set_labels", lambda index, field, found: (again.append(found), set_labels(index, field, found))
    )
    [job] = [each for each in services.catalog.jobs() if each.kind is JobKind.LENS_INDEX]
    assert zoo.pipeline.run(job, heartbeat=lambda done: None).labelled == len(TEXTS) - 2
    assert sum(map(len, again)) == len(TEXTS) - 2
    assert status(zoo).state is LensIndexState.READY
    assert labels_of(zoo).keys() == set(TEXTS)


def test_a_build_that_is_cancelled_ends_and_can_be_retried(zoo: Any) -> None:
    services = zoo.services
    job_id = services.lens_indexes.build("library", "animals").job_id
    services.catalog.cancel(job_id)
    zoo.work_off()
    assert status(zoo).state is LensIndexState.STALE
    assert labels_of(zoo) == {}
    services.catalog.retry(job_id)
    assert status(zoo).state is LensIndexState.WAITING
    zoo.work_off()
    assert (status(zoo).state, status(zoo).progress, status(zoo).chunks) == (LensIndexState.READY, 1.0, len(TEXTS))


def test_changed_values_are_indexed_anew(zoo: Any) -> None:
    build(zoo)
    [known] = zoo.services.catalog.lens_indexes.of_collection("library")
    former = known.built_field
    zoo.services.catalog.save_lens(new_lens("animals", "Which animal is it about?", values=("cat", "dog")))
    assert status(zoo).state is LensIndexState.WAITING
    assert status(zoo).values == ("cat", "dog")
    assert search(zoo, "cat").values.scope is ValueScope.CANDIDATES  # type: ignore[union-attr]
    zoo.work_off()
    assert counts(search(zoo, "dog", ("cat", "dog"))) == {"cat": 1, "dog": 1, OTHER: 3}
    index = zoo.services.catalog.collection("library").active_index
    assert zoo.services.index.count_unlabelled(index, former) == len(TEXTS)
    assert not zoo.services.catalog.garbage.due()
    note_only = new_lens("animals", "Which animal?", note="as before", values=("cat", "dog"))
    zoo.services.catalog.save_lens(note_only)
    assert status(zoo).state is LensIndexState.READY


def test_values_that_change_while_they_are_indexed_are_indexed_anew(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    services, changes = zoo.services, []

    def complete(job: Job, built: Any) -> bool:
        if not changes:
            changes.append(True)
            services.catalog.save_lens(new_lens("animals", "?", values=("dog", "cat")))
        return completed(job, built)

    completed = services.catalog.lens_indexes.complete
    monkeypatch.setattr(services.catalog.lens_indexes, "complete", complete)
    assert build(zoo).state is LensIndexState.READY
    assert status(zoo).values == ("dog", "cat")
    assert counts(search(zoo, "cat", ("dog", "cat"))) == {"cat": 1, "dog": 1, OTHER: 3}
    assert len([job for job in services.catalog.jobs() if job.kind is JobKind.LENS_INDEX]) == 1


def test_a_reindex_makes_it_anew_and_a_roll_back_finds_the_former(zoo: Any, reindexer: Callable[[], Any]) -> None:
    build(zoo)
    with reindexer() as reindexing:
        reindexing.build(reindexing.begin("library", ContractChange(document_steps=4)))
    assert status(zoo).state is LensIndexState.WAITING
    assert search(zoo, "cat").values.scope is ValueScope.CANDIDATES  # type: ignore[union-attr]
    zoo.work_off()
    assert status(zoo).state is LensIndexState.READY
    expected = {"cat": 2, "dog": 1, "horse": 1, OTHER: 1}
    assert counts(search(zoo, "cat")) == expected
    assert zoo.services.catalog.indexes.standby("library", IndexRole.PREVIOUS) is not None
    with reindexer() as reindexing:
        reindexing.roll_back("library")
    zoo.work_off()
    assert status(zoo).state is LensIndexState.READY
    assert counts(search(zoo, "cat")) == expected


@pytest.fixture
def reindexer(zoo: Any) -> Callable[[], Any]:
    @contextmanager
    def opened() -> Any:
        services = zoo.services
        yield Reindexer(
            catalog=services.catalog,
            index=services.index,
            blobs=services.blobs,
            embedder=services.embedder,
            index_documents=partial(zoo.pipeline.index_documents, heartbeat=lambda *_: None),
            small_bytes=8_192,
        )

    return opened


def test_one_of_an_earlier_way_to_read_values_is_not_used_and_made_anew(
    zoo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(zoo)
    catalog = zoo.services.catalog
    [former] = catalog.lens_indexes.of_collection("library")
    assert queue_outdated(catalog) == 0
    monkeypatch.setattr("app.types.lens_indexes.LABELS_VERSION", LABELS_VERSION + 1)
    assert status(zoo).state is LensIndexState.STALE
    found = search(zoo, "the dog").values
    assert found is not None
    assert found.scope is ValueScope.CANDIDATES
    assert queue_outdated(catalog) == 1
    assert status(zoo).state is LensIndexState.WAITING
    zoo.work_off()
    assert status(zoo).state is LensIndexState.READY
    assert counts(search(zoo, "the dog")) == {"cat": 2, "dog": 1, "horse": 1, OTHER: 1}
    zoo.services.library.remove_unneeded()
    points = zoo.services.index.scan(catalog.collection("library").active_index)
    assert not [point for page in points for point in page if former.built_field in point.payload]


def test_a_deleted_one_leaves_nothing(zoo: Any) -> None:
    build(zoo)
    services = zoo.services
    services.lens_indexes.delete("library", "animals")
    assert services.lens_indexes.status("library") == []
    assert search(zoo, "cat").values.scope is ValueScope.CANDIDATES  # type: ignore[union-attr]
    assert [each.kind for each in services.catalog.garbage.due()] == [GarbageKind.LABELS]
    services.library.remove_unneeded()
    index = services.catalog.collection("library").active_index
    points = services.index.retrieve(index, list(services.index.point_ids(index)))
    assert all(each.payload.keys() == {"page_content", "metadata"} for each in points)
    with pytest.raises(NotFoundError, match="no index of the lens 'animals'"):
        services.lens_indexes.delete("library", "animals")


def test_one_that_is_deleted_while_it_is_built_ends(zoo: Any) -> None:
    services = zoo.services
    services.lens_indexes.build("library", "animals")
    [job] = [each for each in services.catalog.jobs() if each.kind is JobKind.LENS_INDEX]
    claimed = services.catalog.claim("test", lease=_LEASE)
    assert claimed.id == job.id

    def delete(done: float) -> None:
        services.lens_indexes.delete("library", "animals")

    with pytest.raises((LeaseLostError, NotFoundError)):
        zoo.pipeline.run(claimed, heartbeat=delete)
    assert services.lens_indexes.status("library") == []


def test_with_its_lens_an_index_goes(zoo: Any) -> None:
    build(zoo)
    zoo.services.catalog.delete_lens("animals")
    assert zoo.services.lens_indexes.status("library") == []
    zoo.services.catalog.save_lens(new_lens("animals", "?", values=ANIMALS))
    build(zoo)
    zoo.services.catalog.save_lens(new_lens("animals", "?"))
    assert zoo.services.lens_indexes.status("library") == []


def test_a_lens_of_the_product_is_indexed_too(zoo: Any) -> None:
    found = build(zoo, "Same place")
    assert (found.state, found.chunks, found.values[0]) == (LensIndexState.READY, len(TEXTS), "Africa")
    assert found.bytes > 0
    assert found.seconds > 0


def test_what_cannot_be_indexed_is_refused(zoo: Any) -> None:
    lens_indexes, catalog = zoo.services.lens_indexes, zoo.services.catalog
    with pytest.raises(UnknownCollectionError):
        lens_indexes.build("nowhere", "animals")
    with pytest.raises(UnknownCollectionError):
        lens_indexes.status("nowhere")
    with pytest.raises(NotFoundError, match="No lens named 'nothing'"):
        lens_indexes.build("library", "nothing")
    with pytest.raises(InputError, match="names no values"):
        lens_indexes.build("library", "Says the same")
    for number in range(MOST_OF_COLLECTION):
        catalog.save_lens(new_lens(f"lens {number}", "?", values=ANIMALS))
        lens_indexes.build("library", f"lens {number}")
    with pytest.raises(ConflictError, match="16 lens indexes"):
        lens_indexes.build("library", "animals")
    lens_indexes.build("library", "lens 3")


def test_an_index_of_points_that_was_made_again_is_labelled_again(zoo: Any) -> None:
    build(zoo)
    zoo.services.catalog.lens_indexes.queue_all("library", is_lost=True)
    assert search(zoo, "cat").values.scope is ValueScope.CANDIDATES  # type: ignore[union-attr]
    zoo.work_off()
    assert status(zoo).state is LensIndexState.READY


def test_a_job_that_fails_says_why(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: ValueReader, *_: object, **__: object) -> ValueLabels:
        raise InputError("The values cannot be read.")

    monkeypatch.setattr(ValueReader, "label", refuse)
    found = build(zoo)
    assert (found.state, found.error) == (LensIndexState.FAILED, "The values cannot be read.")
    monkeypatch.undo()
    assert zoo.services.catalog.retry_dead("library") == 1
    zoo.work_off()
    assert status(zoo).state is LensIndexState.READY


def test_an_empty_collection_is_indexed(toy_services: Any) -> None:
    toy_services.services.library.ensure_collection("library")
    toy_services.services.catalog.save_lens(new_lens("animals", "?", values=ANIMALS))
    assert build(toy_services).state is LensIndexState.READY
    toy_services.add("the cat sleeps")
    assert counts(search(toy_services, "cat")) == {"cat": 1}


def test_an_archive_has_no_labels(zoo: Any) -> None:
    build(zoo)
    services = zoo.services
    collection = services.catalog.collection("library")
    [chunk] = services.catalog.chunks(services.catalog.documents("library")[0].id)
    [point] = services.index.retrieve(collection.active_index, [chunk.id])
    assert len(point.payload) == 3
    assert ChunkLine.of(chunk, point).payload.model_dump().keys() == {"page_content", "metadata"}
    assert replace(chunk, text="").id == chunk.id
    assert JobState.DONE in {job.state for job in services.catalog.jobs()}


def test_over_http_one_is_built_listed_used_and_deleted(zoo: Any) -> None:
    client = TestClient(api_of(zoo.services))
    path = "/api/v1/collections/library/lens-indexes"
    assert client.get(path).json() == []
    queued = client.post(path, json={"lens": "animals"})
    assert (queued.status_code, queued.json()["state"]) == (202, "waiting")
    zoo.work_off()
    [found] = client.get(path).json()
    assert (found["lens"], found["state"], found["progress"], found["chunks"]) == ("animals", "ready", 1.0, 5)
    assert found["values"] == list(ANIMALS)
    answer = client.post("/api/v1/search", json={"query": "cat", "collection": "library", "lens": "animals"}).json()
    assert (answer["values"]["scope"], answer["values"]["passages"]) == ("collection", 5)
    assert client.delete(path, params={"lens": "animals"}).status_code == 204
    assert client.delete(path, params={"lens": "animals"}).status_code == 404
    assert client.post(path, json={"lens": "Says the same"}).status_code == 422
    assert client.post(path, json={"lens": "x" * 1000}).status_code == 422
    assert client.get("/api/v1/collections/nowhere/lens-indexes").status_code == 404


def test_the_page_tells_how_far_an_index_is_and_what_it_costs(zoo: Any) -> None:
    def told(values: tuple[str, ...] = ANIMALS) -> str:
        return str(render_lens_index(zoo.services.lens_indexes.status("library"), values))

    assert told() == ""
    zoo.services.lens_indexes.build("library", "animals")
    assert "waiting to be built" in told()
    assert "href" not in told()
    build(zoo)
    assert "animals" in told()
    assert "ready: 5 passages" in told()
    assert 'href="/api/v1/collections/library/lens-indexes/table?lens=animals"' in told()
    assert told(("cat", "dog")) == ""
    zoo.services.catalog.save_lens(new_lens("<b>bold", "?", values=("a", "b")))
    zoo.services.lens_indexes.build("library", "<b>bold")
    assert "&lt;b&gt;bold" in told(("a", "b"))
    found = search(zoo, "cat")
    assert 'title="all 5 passages by value"' in render_value_counts(found.values, "")
    for side in "AB":  # each side of the page Compare unfolds its own
        shown = render_value_counts(found.values, "", side=side)
        assert shown.count(f'"value-counts-{side.lower()}"') == 3
        assert f'aria-label="Passages by value {side}"' in shown


def test_a_collection_is_a_table_by_value(zoo: Any) -> None:
    zoo.add("=1+1 horse")
    client = TestClient(api_of(zoo.services))
    address = "/api/v1/collections/library/lens-indexes/table"
    assert client.get(address, params={"lens": "animals"}).status_code == 404
    zoo.services.lens_indexes.build("library", "animals")
    waiting = client.get(address, params={"lens": "animals"})
    assert waiting.status_code == 409
    assert "gircse lenses index list" in waiting.json()["detail"]
    zoo.work_off()
    answer = client.get(address, params={"lens": "animals"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    expected = dict(zip(TEXTS, ("cat", "cat", "dog", "horse", OTHER), strict=True))
    assert {row["text"]: row["value"] for row in rows} == {**expected, "'=1+1 horse": "horse"}
    assert all(0 < float(row["probability"]) <= 1 and row["document_id"] and row["chunk_id"] for row in rows)
    cats = client.get(address, params={"lens": "animals", "value": "cat"}).text
    assert {row["text"] for row in csv.DictReader(io.StringIO(cats))} == {"the cat sleeps", "a kitten plays"}
    refused = client.get(address, params={"lens": "animals", "value": "cow"})
    assert refused.status_code == 422
    assert "cat, dog, horse, other" in refused.json()["detail"]


def test_a_page_is_read_while_the_one_before_is_used() -> None:
    reads_second = threading.Event()

    def pages() -> Iterator[str]:
        yield "first"
        reads_second.set()
        yield "second"

    with ThreadPoolExecutor(1) as executor:
        ahead = read_ahead(pages(), executor)
        assert next(ahead) == "first"
        assert reads_second.wait(PATIENCE_S)
        assert list(ahead) == ["second"]
        failing = read_ahead((1 / each for each in (1, 0)), executor)
        assert next(failing) == 1
        with pytest.raises(ZeroDivisionError):
            next(failing)
