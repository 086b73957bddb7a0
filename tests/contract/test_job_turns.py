"""Whose turn it is: priorities, sharing between collections, pauses, notifications, many workers; on both databases."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from catalog_samples import LEASE, LIBRARY, Clock, claimed, new_document
from patience import PATIENCE_S, wait_until
from sqlalchemy import Engine, text

from app.catalog import SqlCatalog, connect
from app.collections.lens_indexing import LensIndexer
from app.documents.blobs import FolderBlobStore
from app.documents.library import Library, SampleRow
from app.errors import CatalogUnavailableError, CollectionPausedError, UnknownCollectionError
from app.testing import InMemoryVectorIndex, ToyEmbedder
from app.types.documents import Job, JobPriority, JobState, NewDocument
from app.types.quotas import Allowance
from app.types.texts import Span
from ingest.pipeline import IngestPipeline
from ingest.readers import ProcessReader, detect
from ingest.worker import Worker

BACKGROUND, BULK, INTERACTIVE = JobPriority.BACKGROUND, JobPriority.BULK, JobPriority.INTERACTIVE
LETTERS = replace(LIBRARY, name="letters", active_index="letters--1")


@pytest.fixture
def queued(catalog: SqlCatalog, clock: Clock) -> Callable[..., Job]:
    """Queues a document of either collection; each is due a second after the one before."""
    catalog.create_collection(LETTERS)

    def queue(uri: str, *, collection: str = "library", priority: JobPriority = BULK, content: str = "a") -> Job:
        clock.advance(timedelta(seconds=1))
        _, job = catalog.submit(collection, new_document(uri, content=content), priority=priority)
        assert job is not None
        return job

    return queue


def finish(catalog: SqlCatalog, job: Job) -> None:
    catalog.complete_ingest(job, title="", metadata={}, chunks=[])


def test_a_user_with_many_collections_takes_turns_with_others(catalog: SqlCatalog, clock: Clock) -> None:
    def add(user: str, collection: str, number: int) -> None:
        clock.advance(timedelta(seconds=1))
        new = replace(new_document(f"{number}.txt"), allowance=Allowance(user))
        catalog.submit(collection, new, priority=INTERACTIVE)

    for number in range(6):
        name = f"a{number}"
        catalog.create_collection(replace(LIBRARY, name=name, active_index=f"{name}--1"))
        add("anna", name, 0)
    add("anna", "a0", 1)
    for number in range(3):
        add("ben", "library", number)
    order = []
    for _ in range(6):
        clock.advance(timedelta(seconds=1))
        job = claimed(catalog)
        order.append(job.collection == "library")
        finish(catalog, job)
    assert sum(order) == 3  # every second one
    assert order[:2] in ([True, False], [False, True])
    assert {claimed(catalog).collection for _ in range(4)} == {"a3", "a4", "a5", "a0"}


class TestPriority:
    def test_a_single_upload_overtakes_a_bulk_run(self, catalog: SqlCatalog, queued: Callable[..., Job]) -> None:
        bulk = [queued(f"{number}.txt") for number in range(3)]
        upload = queued("upload.txt", priority=INTERACTIVE)
        assert upload.priority is INTERACTIVE
        assert [claimed(catalog).id for _ in range(4)] == [upload.id, *(job.id for job in bulk)]

    def test_a_bulk_document_that_is_uploaded_as_well_moves_up_and_stays_there(
        self, catalog: SqlCatalog, queued: Callable[..., Job]
    ) -> None:
        queued("first.txt")
        job = queued("second.txt")
        assert queued("second.txt", priority=INTERACTIVE).id == job.id
        queued("second.txt", content="b")
        assert claimed(catalog).id == job.id

    def test_own_files_are_read_before_background_documents(
        self, catalog: SqlCatalog, queued: Callable[..., Job]
    ) -> None:
        sample = [queued(f"{number}.txt", priority=BACKGROUND) for number in range(3)]
        own = [queued(f"{number}.txt", collection="letters") for number in range(2)]
        same_collection = queued("mine.txt")
        order = [claimed(catalog).id for _ in range(6)]
        assert set(order[:3]) == {*(job.id for job in own), same_collection.id}
        assert order[3:] == [job.id for job in sample]

    def test_a_background_document_that_somebody_adds_moves_up(
        self, catalog: SqlCatalog, queued: Callable[..., Job]
    ) -> None:
        queued("first.txt", priority=BACKGROUND)
        job = queued("second.txt", priority=BACKGROUND)
        assert queued("second.txt").id == job.id
        assert queued("second.txt", priority=BACKGROUND).id == job.id
        assert catalog.job(job.id).priority is BULK
        assert claimed(catalog).id == job.id

    def test_the_sample_library_yields_to_own_files(
        self, catalog: SqlCatalog, queued: Callable[..., Job], tmp_path: Path
    ) -> None:
        library = Library(
            catalog=catalog,
            index=InMemoryVectorIndex(),
            blobs=FolderBlobStore(tmp_path / "files"),
            embedder=ToyEmbedder(),
            detect_format=detect,
        )
        rows = [SampleRow(str(number), f"Title {number}", f"Text {number}", {}) for number in range(5)]
        sample = library.add_sample(rows)
        own = queued("own.txt", collection="letters")
        assert [claimed(catalog).collection for _ in range(2)] == ["letters", "sample"]
        assert (own.priority, {job.priority for job in sample}) == (BULK, {BACKGROUND})

    def test_a_deletion_overtakes_a_bulk_run(
        self, catalog: SqlCatalog, queued: Callable[..., Job], ingested: Callable[..., str]
    ) -> None:
        document_id = ingested("old.txt")
        queued("a.txt")
        deletion = catalog.submit_delete(document_id)
        assert claimed(catalog).id == deletion.id

    def test_it_counts_more_than_whose_turn_it_is(self, catalog: SqlCatalog, queued: Callable[..., Job]) -> None:
        queued("a.txt", collection="letters")
        uploads = [queued(f"{number}.txt", priority=INTERACTIVE) for number in range(2)]
        assert [claimed(catalog).id for _ in range(2)] == [job.id for job in uploads]

    def test_an_interactive_job_that_is_not_due_holds_up_nothing(
        self, catalog: SqlCatalog, queued: Callable[..., Job]
    ) -> None:
        queued("upload.txt", priority=INTERACTIVE)
        catalog.fail(claimed(catalog), "Error.", retry_in=timedelta(hours=1))
        bulk = queued("a.txt")
        assert claimed(catalog).id == bulk.id


class TestSharing:
    def test_one_worker_takes_from_the_collections_in_turn(
        self, catalog: SqlCatalog, queued: Callable[..., Job], clock: Clock
    ) -> None:
        for number in range(6):
            queued(f"{number}.txt")
        for number in range(2):
            queued(f"{number}.txt", collection="letters")
        order = []
        for _ in range(8):
            job = claimed(catalog)
            order.append(job.collection)
            clock.advance(timedelta(seconds=1))
            finish(catalog, job)
        assert order == ["letters", "library"] * 2 + ["library"] * 4

    def test_the_one_with_the_fewest_running_jobs_comes_first(
        self, catalog: SqlCatalog, queued: Callable[..., Job], clock: Clock
    ) -> None:
        for number in range(4):
            queued(f"{number}.txt")
        for _ in range(2):
            assert claimed(catalog).collection == "library"
            clock.advance(timedelta(seconds=1))
        for number in range(3):
            queued(f"{number}.txt", collection="letters")
        assert [claimed(catalog).collection for _ in range(4)] == ["letters", "letters", "library", "letters"]


class TestPause:
    def test_its_jobs_wait_until_it_is_resumed(
        self, catalog: SqlCatalog, queued: Callable[..., Job], clock: Clock
    ) -> None:
        abandoned, waiting = queued("a.txt"), queued("b.txt")
        assert claimed(catalog).id == abandoned.id
        clock.advance(LEASE)
        other = queued("c.txt", collection="letters")
        assert catalog.pause("library") == ["library"]
        assert catalog.collection("library").is_paused
        assert [claimed(catalog).id, catalog.claim("worker-1", lease=LEASE)] == [other.id, None]
        assert catalog.resume("library") == ["library"]
        assert [claimed(catalog).id for _ in range(2)] == [abandoned.id, waiting.id]

    def test_a_running_job_is_to_be_given_back_and_its_attempt_does_not_count(
        self, catalog: SqlCatalog, queued: Callable[..., Job]
    ) -> None:
        queued("a.txt")
        job = claimed(catalog)
        catalog.check_lease(job)
        catalog.pause("library")
        for look in (
            lambda: catalog.check_lease(job),
            lambda: catalog.heartbeat(job, lease=LEASE, progress=0.5),
        ):
            with pytest.raises(CollectionPausedError, match="library"):
                look()
        catalog.release(job)
        assert (catalog.job(job.id).state, catalog.job(job.id).attempts) == (JobState.QUEUED, 0)

    def test_without_a_name_it_is_every_collection(self, catalog: SqlCatalog, queued: Callable[..., Job]) -> None:
        queued("a.txt", priority=INTERACTIVE)
        assert catalog.pause() == ["letters", "library"]
        assert catalog.claim("worker-1", lease=LEASE) is None
        assert catalog.resume() == ["letters", "library"]
        claimed(catalog)

    def test_an_unknown_collection_is_an_error(self, catalog: SqlCatalog) -> None:
        for act in (catalog.pause, catalog.resume, catalog.retry_dead):
            with pytest.raises(UnknownCollectionError, match="libary"):
                act("libary")


class TestRetryDead:
    def kill(self, catalog: SqlCatalog, uris: list[str]) -> None:
        for _ in uris:
            catalog.fail(claimed(catalog), "Error.", retry_in=None)

    def test_queues_what_nothing_newer_has_replaced(self, catalog: SqlCatalog, queued: Callable[..., Job]) -> None:
        uris = ["a.txt", "b.txt", "gone.txt"]
        dead, replaced, gone = (queued(uri) for uri in uris)
        self.kill(catalog, uris)
        queued("b.txt", content="b")
        finish(catalog, claimed(catalog))
        catalog.submit_delete(gone.document_id)
        catalog.complete_delete(claimed(catalog))
        assert catalog.retry_dead() == 1
        assert catalog.job(dead.id).state is JobState.QUEUED
        assert catalog.job(replaced.id).state is JobState.DEAD
        assert catalog.retry_dead() == 0

    def test_of_one_collection_leaves_the_others(self, catalog: SqlCatalog, queued: Callable[..., Job]) -> None:
        queued("a.txt")
        queued("a.txt", collection="letters")
        self.kill(catalog, ["a.txt"] * 2)
        assert catalog.retry_dead("letters") == 1
        assert catalog.job_counts("library")[JobState.DEAD] == 1


class TestListening:
    @pytest.mark.parametrize("event", ["submit", "retry", "resume", "release", "retry_dead"])
    def test_hears_what_makes_a_job_due_even_between_two_waits(
        self, catalog: SqlCatalog, queued: Callable[..., Job], event: str
    ) -> None:
        job = queued("a.txt")
        running = claimed(catalog)
        if event in ("retry", "retry_dead"):
            catalog.fail(running, "Error.", retry_in=None)
        if event == "resume":
            catalog.pause()
        acts: dict[str, Callable[[], object]] = {
            "submit": lambda: queued("b.txt"),
            "retry": lambda: catalog.retry(job.id),
            "retry_dead": catalog.retry_dead,
            "resume": catalog.resume,
            "release": lambda: catalog.release(running),
        }
        with catalog.listening() as listener:
            assert listener.wait(0.05) is False
            acts[event]()
            assert listener.wait(PATIENCE_S) is True
            assert listener.wait(0.05) is False

    def test_a_lost_connection_is_told_and_the_next_one_hears_again(
        self, catalog: SqlCatalog, queued: Callable[..., Job], engine: Engine
    ) -> None:
        if engine.dialect.name != "postgresql":
            pytest.skip("SQLite has no connection to lose")
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        with catalog.listening() as listener:
            with engine.connect() as connection:
                connection.execute(text(others))
            with pytest.raises(CatalogUnavailableError):
                listener.wait(PATIENCE_S)
        with catalog.listening() as listener:
            queued("a.txt")
            assert listener.wait(PATIENCE_S) is True


@pytest.fixture
def pipeline_of(tmp_path: Path) -> Callable[[SqlCatalog], IngestPipeline]:
    index = InMemoryVectorIndex()
    index.create(LIBRARY.active_index, dimension=LIBRARY.dimension)

    def build(catalog: SqlCatalog) -> IngestPipeline:
        embedder = ToyEmbedder(dimension=LIBRARY.dimension, fingerprint=LIBRARY.fingerprint)
        return IngestPipeline(
            catalog=catalog,
            blobs=FolderBlobStore(tmp_path / "files"),
            index=index,
            lens_indexing=LensIndexer(catalog=catalog, index=index, embedder=embedder),
            embedder=embedder,
            read=ProcessReader(),
            splitter_for=lambda _: lambda found: [Span(found.text, 0, len(found.text))],
        )

    return build


class TestWorkers:
    def test_an_idle_one_that_seldom_looks_is_notified(
        self, engine: Engine, pipeline_of: Callable[[SqlCatalog], IngestPipeline]
    ) -> None:
        if engine.dialect.name != "postgresql":
            pytest.skip("SQLite has no notifications: its workers look every second")
        catalog = SqlCatalog(engine)
        catalog.create_collection(LIBRARY)
        stop = threading.Event()
        worker = Worker(catalog=catalog, pipeline=pipeline_of(catalog), owner="sleepy", poll_s=100 * PATIENCE_S)
        thread = threading.Thread(target=worker.run, args=(stop,))
        thread.start()
        try:
            for number in range(3):
                time.sleep(0.3)  # so that it is idle again
                new = NewDocument(f"{number}.txt", "", "text/plain", "0" * 64, 1)  # no such file: dead at once
                _, job = catalog.submit("library", new)
                assert job is not None
                wait_until(lambda job=job: catalog.job(job.id).state is JobState.DEAD)
        finally:
            stop.set()
            catalog.submit("library", NewDocument("last.txt", "", "text/plain", "0" * 64, 1))  # which notifies it
            thread.join()

    @pytest.mark.parametrize("count", [80, pytest.param(200, marks=pytest.mark.long)])
    def test_four_share_jobs_none_twice_none_lost(self, engine: Engine, catalog: SqlCatalog, count: int) -> None:
        catalog.create_collection(LETTERS)
        wanted = set()
        for number in range(count):
            collection = "letters" if number % 4 == 0 else "library"
            _, job = catalog.submit(collection, new_document(f"{number}.txt"), priority=BULK)
            assert job is not None
            wanted.add(job.id)
        each_has_one = threading.Barrier(4)  # SQLite's lock is not fair: without it one may do all before the others

        def work(number: int) -> list[str]:
            """On connections of its own, as another process would."""
            own_engine = connect(engine.url.render_as_string(hide_password=False))
            own, done = SqlCatalog(own_engine), []
            # SKIP LOCKED may pass over a row that another claim holds for a moment: the ledger knows when all is done.
            while (job := own.claim(f"worker-{number}", lease=LEASE)) or own.job_counts()[JobState.DONE] < len(wanted):
                if job is None:
                    continue
                if not done:
                    each_has_one.wait(timeout=PATIENCE_S)
                finish(own, job)
                done.append(job.id)
            own_engine.dispose()
            return done

        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(work, range(4)))
        assert Counter(job_id for ids in done for job_id in ids) == Counter(wanted)
        assert all(done)
