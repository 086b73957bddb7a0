"""The catalog's promises, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from catalog_samples import LEASE, LIBRARY, Clock, claimed, new_document
from sqlalchemy import Engine

from app.catalog import SqlCatalog, connect
from app.catalog.tables import Table
from app.errors import (
    CatalogUnavailableError,
    ConflictError,
    InputError,
    LeaseLostError,
    UnknownCollectionError,
    UnknownDocumentError,
)
from app.types.documents import DocumentState, Job, JobKind, JobState


def test_the_migrated_schema_is_the_one_the_code_describes(engine: Engine) -> None:
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Table.metadata) == []


class TestCollections:
    def test_the_same_contract_twice_gives_the_existing_one(self, catalog: SqlCatalog) -> None:
        again = catalog.create_collection(replace(LIBRARY, active_index="library--9"))
        assert again == LIBRARY
        assert [each.name for each in catalog.collections()] == ["library"]

    @pytest.mark.parametrize(
        "change",
        [{"fingerprint": "model-2"}, {"document_steps": 6}, {"document_instruction": "x"}, {"chunk_tokens": 9}],
    )
    def test_another_contract_under_a_taken_name_is_refused(self, catalog: SqlCatalog, change: dict[str, str]) -> None:
        with pytest.raises(ConflictError, match=next(iter(change))):
            catalog.create_collection(replace(LIBRARY, **change))  # type: ignore[arg-type]

    def test_an_unknown_one_is_reported_with_those_that_exist(self, catalog: SqlCatalog) -> None:
        with pytest.raises(UnknownCollectionError, match=r"'libary'.*library"):
            catalog.collection("libary")
        with pytest.raises(UnknownCollectionError):
            catalog.counted_collection("libary")
        with pytest.raises(UnknownCollectionError):
            catalog.submit("libary", new_document())
        with pytest.raises(UnknownCollectionError):
            catalog.delete_collection("libary")

    def test_counts_its_documents_and_chunks(
        self, catalog: SqlCatalog, ingested: Callable[..., str], submitted: Callable[..., Job]
    ) -> None:
        ingested("a.txt", chunks=2)
        ingested("b.txt", chunks=3)
        submitted("c.txt")
        collection = catalog.counted_collection("library")
        assert collection == catalog.collections()[0]
        assert (collection.document_count, collection.chunk_count) == (3, 5)

    def test_deleting_takes_documents_and_jobs_along_and_ends_a_running_job(
        self, catalog: SqlCatalog, ingested: Callable[..., str], submitted: Callable[..., Job]
    ) -> None:
        document_id = ingested("a.txt")
        submitted("b.txt")
        running = claimed(catalog)
        catalog.delete_collection("library")
        assert (catalog.collections(), catalog.documents(), catalog.jobs()) == ([], [], [])
        assert catalog.chunks(document_id) == []
        with pytest.raises(LeaseLostError):
            catalog.heartbeat(running, lease=LEASE, progress=0.5)

    def test_made_by_many_at_once_exists_once(self, engine: Engine) -> None:
        catalog = SqlCatalog(engine)
        with ThreadPoolExecutor(6) as pool:
            made = list(pool.map(lambda _: catalog.create_collection(LIBRARY), range(6)))
        assert made == [LIBRARY] * 6


class TestSubmit:
    def test_stores_the_document_and_queues_its_job(self, catalog: SqlCatalog, clock: Clock) -> None:
        document, job = catalog.submit("library", new_document())
        assert job is not None
        assert catalog.document(document.id) == document
        assert catalog.job(job.id) == job
        assert (document.state, document.metadata) == (DocumentState.QUEUED, {"year": 1999, "kind": "note"})
        assert (job.kind, job.state, job.document_id) == (JobKind.INGEST, JobState.QUEUED, document.id)
        assert job.not_before == document.created_at == clock.now

    def test_again_while_queued_keeps_one_job(self, catalog: SqlCatalog, submitted: Callable[..., Job]) -> None:
        first = submitted()
        second = submitted(content="b")
        assert second.id == first.id
        assert catalog.document(first.document_id).content_hash == "b" * 64

    def test_again_unchanged_when_ready_does_nothing(self, catalog: SqlCatalog, ingested: Callable[..., str]) -> None:
        document_id = ingested()
        document, job = catalog.submit("library", new_document())
        assert (document.id, document.state, job) == (document_id, DocumentState.READY, None)

    @pytest.mark.parametrize("change", [{"content": "b"}, {"metadata": {"year": 2000}}, {"title": "Another"}])
    def test_again_with_a_change_queues_a_job(
        self, catalog: SqlCatalog, ingested: Callable[..., str], change: dict[str, object]
    ) -> None:
        document_id = ingested()
        document, job = catalog.submit("library", new_document(**change))  # type: ignore[arg-type]
        assert (document.id, document.state) == (document_id, DocumentState.QUEUED)
        assert job is not None
        assert job.state is JobState.QUEUED

    def test_again_unchanged_while_running_gives_the_running_job(
        self, catalog: SqlCatalog, submitted: Callable[..., Job]
    ) -> None:
        submitted()
        running = claimed(catalog)
        assert submitted() == running

    def test_new_content_while_running_supersedes_the_job(
        self, catalog: SqlCatalog, submitted: Callable[..., Job]
    ) -> None:
        submitted()
        old = claimed(catalog)
        new = submitted(content="b")
        assert new.id != old.id
        assert catalog.job(old.id).state is JobState.CANCELLED
        with pytest.raises(LeaseLostError):
            catalog.complete_ingest(old, title="Old", metadata={}, chunks=[])
        assert catalog.document(old.document_id).state is DocumentState.QUEUED

    def test_the_superseding_job_waits_until_the_old_worker_has_let_go(
        self, catalog: SqlCatalog, submitted: Callable[..., Job]
    ) -> None:
        submitted()
        old = claimed(catalog)
        new = submitted(content="b")
        assert catalog.claim("worker-2", lease=LEASE) is None
        catalog.release(old)
        assert claimed(catalog, "worker-2").id == new.id

    def test_the_superseding_job_starts_when_the_old_worker_is_gone(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], clock: Clock
    ) -> None:
        submitted()
        claimed(catalog)
        new = submitted(content="b")
        clock.advance(LEASE)
        assert claimed(catalog, "worker-2").id == new.id

    def test_by_many_at_once_makes_one_document_and_one_job(self, catalog: SqlCatalog) -> None:
        barrier = threading.Barrier(6)

        def submit(number: int) -> str:
            barrier.wait()
            return catalog.submit("library", new_document(content="abcdef"[number]))[0].id

        with ThreadPoolExecutor(6) as pool:
            ids = set(pool.map(submit, range(6)))
        assert len(ids) == len(catalog.documents()) == len(catalog.jobs()) == 1

    def test_names_that_no_database_can_store_are_escaped(self, catalog: SqlCatalog) -> None:
        document, _ = catalog.submit("library", new_document("caf\udce9\0.txt", title="T\0\udc80"))
        stored = catalog.document(document.id)
        assert (stored.uri, stored.title) == ("caf\\udce9\\x00.txt", "T\\x00\\udc80")
        again, _ = catalog.submit("library", new_document("caf\udce9\0.txt", title="T\0\udc80"))
        assert again.id == document.id

    def test_an_endless_uri_is_refused(self, catalog: SqlCatalog) -> None:
        catalog.submit("library", new_document("ü" * 1000))
        with pytest.raises(InputError, match="2000 bytes"):
            catalog.submit("library", new_document("ü" * 1001))


class TestDelete:
    def test_removes_the_document_when_its_job_is_done(self, catalog: SqlCatalog, ingested: Callable[..., str]) -> None:
        document_id = ingested()
        job = catalog.submit_delete(document_id)
        assert catalog.document(document_id).state is DocumentState.DELETING
        assert catalog.submit_delete(document_id) == job
        running = claimed(catalog)
        assert (running.id, running.kind) == (job.id, JobKind.DELETE)
        catalog.complete_delete(running)
        with pytest.raises(UnknownDocumentError):
            catalog.document(document_id)
        assert catalog.chunks(document_id) == []
        assert catalog.job(job.id).state is JobState.DONE

    def test_supersedes_a_queued_ingestion(self, catalog: SqlCatalog, submitted: Callable[..., Job]) -> None:
        ingestion = submitted()
        catalog.submit_delete(ingestion.document_id)
        assert catalog.job(ingestion.id).state is JobState.CANCELLED

    def test_adding_the_document_again_supersedes_its_deletion(
        self, catalog: SqlCatalog, ingested: Callable[..., str]
    ) -> None:
        deletion = catalog.submit_delete(ingested())
        document, job = catalog.submit("library", new_document())
        assert (document.state, job is not None) == (DocumentState.QUEUED, True)
        assert catalog.job(deletion.id).state is JobState.CANCELLED

    def test_of_an_unknown_document_is_an_error(self, catalog: SqlCatalog) -> None:
        with pytest.raises(UnknownDocumentError, match="no-such-id"):
            catalog.submit_delete("no-such-id")


class TestLists:
    def test_documents_by_state_and_in_pages(
        self, catalog: SqlCatalog, ingested: Callable[..., str], submitted: Callable[..., Job], clock: Clock
    ) -> None:
        for uri in ("c.txt", "a.txt", "b.txt"):
            ingested(uri)
            clock.advance(timedelta(seconds=1))
        submitted("d.txt")
        assert [d.uri for d in catalog.documents("library")] == ["c.txt", "a.txt", "b.txt", "d.txt"]
        assert [d.uri for d in catalog.documents("library", limit=2, offset=1)] == ["a.txt", "b.txt"]
        assert [d.uri for d in catalog.documents(state=DocumentState.QUEUED)] == ["d.txt"]
        assert catalog.documents("other") == []

    def test_jobs_by_state_newest_first_and_counted(
        self, catalog: SqlCatalog, ingested: Callable[..., str], submitted: Callable[..., Job], clock: Clock
    ) -> None:
        ingested("a.txt")
        clock.advance(timedelta(seconds=1))
        newest = submitted("b.txt")
        assert catalog.jobs()[0] == newest
        assert catalog.jobs(state=JobState.QUEUED, collection="library") == [newest]
        assert catalog.jobs(collection="other") == []
        counts = catalog.job_counts("library")
        assert {state for state, number in counts.items() if number} == {JobState.QUEUED, JobState.DONE}
        assert set(counts) == set(JobState)


def test_a_value_that_the_database_cannot_hold_is_no_fault_of_the_service(catalog: SqlCatalog) -> None:
    for document_id in ("\0", "a\0b"):  # SQLite holds NUL
        with pytest.raises((InputError, UnknownDocumentError)):
            catalog.document(document_id)
    with pytest.raises(InputError):
        catalog.documents("library", limit=10**30)


def test_an_unmigrated_database_is_not_alive(tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path / 'empty.db'}")
    assert not SqlCatalog(engine).is_alive()
    engine.dispose()


def test_a_server_that_is_away_is_reported_without_its_password() -> None:
    pytest.importorskip("psycopg")
    engine = connect("postgresql://me:secret@127.0.0.1:9/catalog_test?connect_timeout=2")
    catalog = SqlCatalog(engine)
    assert not catalog.is_alive()
    with pytest.raises(CatalogUnavailableError, match=r"me:\*\*\*@127\.0\.0\.1") as caught:
        catalog.collections()
    assert "secret" not in str(caught.value)
    engine.dispose()


@pytest.mark.parametrize("url", ["mysql://host/name", "sqlite://", "sqlite:///:memory:"])
def test_a_database_that_cannot_hold_the_catalog_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="sqlite:///FILE"):
        connect(url)
