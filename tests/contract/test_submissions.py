"""Documents that come in batches leave the catalog as if each had come alone and in its turn; on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from catalog_samples import LEASE, LIBRARY, Clock, claimed, new_document
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from patience import PATIENCE_S
from sqlalchemy import Engine, event

from app.catalog import SqlCatalog
from app.errors import InputError, UnknownCollectionError
from app.types.documents import Document, DocumentState, GarbageKind, Job, JobPriority, JobState, NewDocument


def test_many_are_queued_in_their_order(catalog: SqlCatalog) -> None:
    names = [f"{number}.txt" for number in (3, 1, 4, 15, 9, 2, 6)]
    submitted = catalog.submit_many("library", [new_document(name) for name in names])
    assert [document.uri for document, _ in submitted] == names
    assert [each.uri for each in catalog.documents("library")] == names
    jobs = [job for _, job in submitted if job is not None]
    assert [catalog.job(job.id) for job in jobs] == jobs
    assert {job.priority for job in jobs} == {JobPriority.BULK}
    assert [claimed(catalog, f"worker-{number}").id for number in range(7)] == [job.id for job in jobs]


def test_what_comes_alone_overtakes_a_batch(catalog: SqlCatalog, clock: Clock) -> None:
    catalog.submit_many("library", [new_document("1.txt"), new_document("2.txt")])
    clock.advance(timedelta(seconds=1))
    _, urgent = catalog.submit("library", new_document("3.txt"))
    catalog.submit_many("library", [new_document("2.txt")], priority=JobPriority.INTERACTIVE)
    claims = [claimed(catalog, f"worker-{number}") for number in range(3)]
    assert [catalog.document(job.document_id).uri for job in claims] == ["2.txt", "3.txt", "1.txt"]
    assert urgent is not None
    assert urgent.priority is JobPriority.INTERACTIVE


def test_nothing_is_written_when_nothing_changed(
    catalog: SqlCatalog, ingested: Callable[..., str], engine: Engine
) -> None:
    names = ["a.txt", "b.txt", "c.txt"]
    ids = [ingested(name) for name in names]
    with statements(engine) as said:
        submitted = catalog.submit_many("library", [new_document(name) for name in names])
    assert [(document.id, job) for document, job in submitted] == [(each, None) for each in ids]
    assert not [each for each in said if each.startswith(("INSERT", "UPDATE", "DELETE")) or "IMMEDIATE" in each]
    assert len([each for each in said if "FROM document" in each]) == 1  # one look for all


@contextmanager
def statements(engine: Engine) -> Iterator[list[str]]:
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        said.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield said
    event.remove(engine, "before_cursor_execute", note)


def test_of_a_batch_only_what_changed_is_queued(catalog: SqlCatalog, ingested: Callable[..., str]) -> None:
    kept, edited = ingested("kept.txt"), ingested("edited.txt")
    submitted = catalog.submit_many(
        "library", [new_document("edited.txt", content="b"), new_document("kept.txt"), new_document("new.txt")]
    )
    assert [job is None for _, job in submitted] == [False, True, False]
    assert [document.id for document, _ in submitted[:2]] == [edited, kept]
    assert [document.revision for document, _ in submitted] == [2, 1, 1]
    assert [garbage_item.name for garbage_item in catalog.garbage.due()] == ["a" * 64]  # the file of the version before
    assert {garbage_item.kind for garbage_item in catalog.garbage.due()} == {GarbageKind.FILE}


def test_the_last_of_one_uri_in_a_batch_counts(catalog: SqlCatalog, ingested: Callable[..., str]) -> None:
    ready = ingested("ready.txt")
    submitted = catalog.submit_many(
        "library",
        [
            new_document("new.txt", content="b"),
            new_document("ready.txt", content="c"),
            new_document("new.txt", content="d"),
            new_document("ready.txt"),  # as it was before this batch
        ],
    )
    first, second = submitted[0], submitted[2]
    assert (first[0].id, first[0].content_hash, first[0].revision) == (second[0].id, "b" * 64, 1)
    assert (second[0].content_hash, second[0].revision) == ("d" * 64, 2)
    assert catalog.document(ready).revision == 3
    assert catalog.document(ready).state is DocumentState.QUEUED
    assert len({job.id for _, job in submitted if job is not None}) == 2
    assert catalog.job_counts()[JobState.QUEUED] == 2


def test_moves_of_one_batch_may_follow_each_other(catalog: SqlCatalog, ingested: Callable[..., str]) -> None:
    first, second = ingested("1.txt"), ingested("2.txt")
    submitted = catalog.submit_many(
        "library",
        [
            new_document("3.txt", moved_from=second),
            new_document("2.txt", moved_from=first),
            new_document("1.txt", content="b"),
            new_document("4.txt", moved_from="no such id"),
        ],
    )
    assert [document.id for document, _ in submitted[:2]] == [second, first]
    assert {each.uri for each in catalog.documents("library")} == {"1.txt", "2.txt", "3.txt", "4.txt"}
    assert [document.revision for document, _ in submitted] == [2, 2, 1, 1]


def test_a_running_ingestion_of_the_same_is_left_at_it(catalog: SqlCatalog, submitted: Callable[..., Job]) -> None:
    submitted("a.txt")
    running = claimed(catalog)
    (_, same), (_, new) = catalog.submit_many("library", [new_document("a.txt"), new_document("b.txt")])
    assert same is not None
    assert (same.id, same.state) == (running.id, JobState.RUNNING)
    (_, changed), _ = catalog.submit_many("library", [new_document("a.txt", content="b"), new_document("b.txt")])
    assert catalog.job(running.id).state is JobState.CANCELLED
    assert changed is not None
    assert changed.id != running.id
    assert new is not None


def test_a_batch_with_one_that_cannot_be_kept_leaves_nothing(catalog: SqlCatalog) -> None:
    with pytest.raises(InputError, match="2000 bytes"):
        catalog.submit_many("library", [new_document("a.txt"), new_document("x" * 2001)])
    with pytest.raises(UnknownCollectionError):
        catalog.submit_many("libary", [new_document("a.txt")])
    assert catalog.documents() == catalog.jobs() == []
    assert catalog.submit_many("library", []) == []


def test_batches_of_two_at_once_make_each_document_once(catalog: SqlCatalog) -> None:
    """In opposite orders, some there already: a transaction that locks row by row meets the other one in the middle."""
    names = [f"{number:02}.txt" for number in range(40)]
    catalog.submit_many("library", [new_document(name) for name in names[::3]])
    barrier = threading.Barrier(4)

    def submit(turn: int) -> list[tuple[Document, Job | None]]:
        documents = [new_document(name, content="bcde"[turn]) for name in names[:: -1 if turn % 2 else 1]]
        barrier.wait()
        return catalog.submit_many("library", documents)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(submit, range(4)))
    assert sorted(each.uri for each in catalog.documents("library")) == names
    assert len({document.id for result in results for document, _ in result}) == len(names)
    assert catalog.job_counts()[JobState.QUEUED] == len(names)
    assert len({each.content_hash for each in catalog.documents("library")}) == 1  # one batch was the last


def test_a_batch_meets_jobs_being_retried_and_finished(catalog: SqlCatalog) -> None:
    """None of them waits for ever for a row that the other one holds."""
    names = [f"{number:02}.txt" for number in range(30)]
    catalog.submit_many("library", [new_document(name) for name in names])
    while job := catalog.claim("worker-1", lease=LEASE):
        catalog.fail(job, "unreadable", retry_in=None)
    barrier = threading.Barrier(3)

    def submit() -> None:
        barrier.wait()
        for content in "bcd":
            catalog.submit_many("library", [new_document(name, content=content) for name in reversed(names)])

    def retry() -> None:
        barrier.wait()
        for _ in range(3):
            catalog.retry_dead()

    def work() -> None:
        barrier.wait()
        for number in range(20):
            if (taken := catalog.claim(f"worker-{number}", lease=LEASE)) is not None:
                catalog.release(taken)

    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(each) for each in (submit, retry, work)]:
            future.result(timeout=PATIENCE_S)
    assert {each.content_hash for each in catalog.documents("library")} == {"d" * 64}


def test_a_title_that_no_database_can_store_does_not_make_a_document_new(catalog: SqlCatalog) -> None:
    document = new_document("a.txt", title="T\0\udc80")
    catalog.submit("library", document)
    catalog.complete_ingest(claimed(catalog), title="", metadata={}, chunks=[])
    assert catalog.submit("library", document)[1] is None


def test_jobs_are_told_with_their_documents(
    catalog: SqlCatalog, ingested: Callable[..., str], submitted: Callable[..., Job], clock: Clock
) -> None:
    done = catalog.document(ingested("done.txt", chunks=3))
    clock.advance(timedelta(seconds=1))
    queued = submitted("queued.txt")
    (job,) = catalog.jobs(state=JobState.DONE)
    told = catalog.job_reports([job.id, queued.id, "no such id"])
    assert {job_id: (report.uri, report.chunk_count) for job_id, report in told.items()} == {
        job.id: (done.uri, 3),
        queued.id: ("queued.txt", 0),
    }
    assert told[queued.id].job == queued
    deletion = catalog.submit_delete(done.id)
    catalog.complete_delete(claimed_of(catalog, deletion))
    assert catalog.job_reports([deletion.id])[deletion.id].uri == ""
    assert catalog.job_reports([]) == {}


def claimed_of(catalog: SqlCatalog, job: Job) -> Job:
    while (taken := claimed(catalog)).id != job.id:
        pass
    return taken


URIS = st.sampled_from(["a", "b", "c", "d", "ü\0"])
STEPS = st.lists(st.tuples(URIS, st.sampled_from("xyz"), st.integers(0, 4)), max_size=6)


@given(before=STEPS, batch=STEPS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_batch_does_what_its_documents_would_do_one_by_one(
    catalog: SqlCatalog, before: Sequence[tuple[str, str, int]], batch: Sequence[tuple[str, str, int]]
) -> None:
    """A third number names the document of the collection that this one is said to have moved from, if there is one."""
    outcomes = []
    for is_batch in (False, True):
        _empty(catalog)
        catalog.submit_many("library", [new_document(uri, content=content) for uri, content, _ in before])
        while job := catalog.claim("worker", lease=LEASE):
            catalog.complete_ingest(job, title="", metadata={}, chunks=[])
        ids = [each.id for each in catalog.documents("library")]
        documents = [_moved(new_document(uri, content=content), ids, number) for uri, content, number in batch]
        if is_batch:
            submitted = catalog.submit_many("library", documents)
        else:
            submitted = [catalog.submit("library", each, priority=JobPriority.BULK) for each in documents]
        numbers = {document_id: number for number, document_id in enumerate(ids)}
        told = [(numbers.get(document.id), document.revision, job is None) for document, job in submitted]
        kept = [
            (each.uri, each.content_hash, each.revision, each.state, numbers.get(each.id))
            for each in catalog.documents("library")
        ]
        outcomes.append((told, sorted(kept), sorted(garbage_item.name for garbage_item in catalog.garbage.due())))
    assert outcomes[0] == outcomes[1]


def _moved(document: NewDocument, ids: Sequence[str], number: int) -> NewDocument:
    return replace(document, moved_from=ids[number]) if number < len(ids) else document


def _empty(catalog: SqlCatalog) -> None:
    catalog.delete_collection("library")
    for garbage_item in catalog.garbage.due():
        catalog.garbage.forget(garbage_item)
    catalog.create_collection(LIBRARY)
