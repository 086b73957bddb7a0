"""The promises of the ledger of jobs: claims, leases, attempts, cancellation, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from catalog_samples import LEASE, Clock, claimed, new_chunk

from app.catalog import SqlCatalog
from app.catalog.jobs import MAX_LOST_ATTEMPTS
from app.errors import ConflictError, LeaseLostError, UnknownDocumentError, UnknownJobError
from app.types.documents import MAX_ATTEMPTS, DocumentState, Job, JobState


class TestClaim:
    def test_takes_the_one_that_has_been_due_for_longest(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], clock: Clock
    ) -> None:
        jobs = []
        for uri in ("z.txt", "a.txt", "m.txt"):
            jobs.append(submitted(uri).id)
            clock.advance(timedelta(seconds=1))
        assert [claimed(catalog).id for _ in jobs] == jobs
        assert catalog.claim("worker-1", lease=LEASE) is None

    def test_marks_owner_lease_attempt_and_token(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], clock: Clock
    ) -> None:
        submitted()
        job = claimed(catalog, "worker-7")
        assert (job.state, job.lease_owner, job.attempts, job.fencing_token) == (JobState.RUNNING, "worker-7", 1, 1)
        assert job.lease_until == clock.now + LEASE
        assert catalog.job(job.id) == job

    def test_takes_up_what_was_leased_or_put_off_before_the_clock_came_back(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], clock: Clock
    ) -> None:
        submitted("leased.txt")
        submitted("failed.txt")
        clock.advance(timedelta(days=1))
        leased, failed = claimed(catalog), claimed(catalog)
        catalog.fail(failed, "The model is away.", retry_in=timedelta(minutes=5))
        queued = submitted("queued.txt")
        assert catalog.jobs_ahead() == 0
        clock.advance(-timedelta(days=1))
        assert catalog.jobs_ahead() == 3
        assert {claimed(catalog, "worker-2").id for _ in range(3)} == {leased.id, failed.id, queued.id}
        assert catalog.jobs_ahead() == 0
        assert catalog.claim("worker-3", lease=LEASE) is None
        with pytest.raises(LeaseLostError):
            catalog.heartbeat(leased, lease=LEASE, progress=0.5)

    def test_leaves_a_lease_and_a_pause_of_any_length_that_is_set(
        self, catalog: SqlCatalog, submitted: Callable[..., Job]
    ) -> None:
        submitted()
        assert catalog.claim("worker-1", lease=timedelta(hours=3)) is not None
        assert catalog.claim("worker-2", lease=timedelta(hours=3)) is None

    def test_by_many_threads_never_hands_out_a_job_twice(
        self, catalog: SqlCatalog, submitted: Callable[..., Job]
    ) -> None:
        wanted = {submitted(f"{number}.txt").id for number in range(40)}
        barrier = threading.Barrier(8)

        def drain(number: int) -> list[str]:
            barrier.wait()
            taken = []
            while (job := catalog.claim(f"worker-{number}", lease=LEASE)) is not None:
                taken.append(job.id)
            return taken

        with ThreadPoolExecutor(8) as pool:
            taken = [job_id for ids in pool.map(drain, range(8)) for job_id in ids]
        # SKIP LOCKED may pass over a row that another claim holds for a moment, so a late look finds the rest.
        taken += drain_alone(catalog)
        assert Counter(taken) == Counter(wanted)

    def test_an_ended_lease_is_claimed_with_a_newer_token(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], clock: Clock
    ) -> None:
        submitted()
        first = claimed(catalog, "worker-1")
        clock.advance(LEASE - timedelta(seconds=1))
        assert catalog.claim("worker-2", lease=LEASE) is None
        clock.advance(timedelta(seconds=1))
        second = claimed(catalog, "worker-2")
        assert (second.id, second.attempts) == (first.id, 2)
        assert second.fencing_token > first.fencing_token

    def test_a_job_whose_workers_all_died_is_given_up(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], clock: Clock
    ) -> None:
        job = submitted("poison.txt")
        for _ in range(MAX_LOST_ATTEMPTS):
            assert claimed(catalog).id == job.id
            clock.advance(LEASE)
        healthy = submitted("healthy.txt")
        assert claimed(catalog).id == healthy.id
        assert catalog.job(job.id).state is JobState.DEAD
        document = catalog.document(job.document_id)
        assert document.state is DocumentState.FAILED
        assert document.error is not None
        assert f"{MAX_LOST_ATTEMPTS} times" in document.error


def drain_alone(catalog: SqlCatalog) -> list[str]:
    taken = []
    while (job := catalog.claim("late", lease=LEASE)) is not None:
        taken.append(job.id)
    return taken


class TestLease:
    def test_a_heartbeat_prolongs_it(self, catalog: SqlCatalog, submitted: Callable[..., Job], clock: Clock) -> None:
        submitted()
        job = claimed(catalog)
        clock.advance(LEASE - timedelta(seconds=1))
        catalog.heartbeat(job, lease=LEASE, progress=0.25)
        clock.advance(LEASE - timedelta(seconds=1))
        assert catalog.claim("worker-2", lease=LEASE) is None
        assert catalog.job(job.id).progress == 0.25

    def test_who_lost_it_can_do_nothing_to_the_job(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], clock: Clock
    ) -> None:
        submitted()
        old = claimed(catalog, "worker-1")
        clock.advance(LEASE)
        new = claimed(catalog, "worker-2")
        for act in (
            lambda: catalog.heartbeat(old, lease=LEASE, progress=0.5),
            lambda: catalog.complete_ingest(old, title="Old", metadata={}, chunks=[new_chunk(old.document_id)]),
            lambda: catalog.complete_delete(old),
            lambda: catalog.fail(old, "Old reason", retry_in=None),
        ):
            with pytest.raises(LeaseLostError, match=old.id):
                act()
        catalog.release(old)
        assert catalog.job(new.id) == new
        assert catalog.chunks(old.document_id) == []

    def test_released_is_due_at_once_and_the_attempt_does_not_count(
        self, catalog: SqlCatalog, submitted: Callable[..., Job]
    ) -> None:
        submitted()
        for _ in range(MAX_LOST_ATTEMPTS + 2):
            job = claimed(catalog)
            assert job.attempts == 1
            catalog.release(job)

    def test_released_with_a_reason_pauses_longer_each_time_but_not_for_ever(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], clock: Clock
    ) -> None:
        submitted()
        pauses = []
        for _ in range(8):
            job = claimed(catalog)
            catalog.release(job, reason="Qdrant is away.")
            waiting = catalog.job(job.id)
            assert (waiting.state, waiting.attempts, waiting.error) == (JobState.QUEUED, 0, "Qdrant is away.")
            assert catalog.claim("worker-2", lease=LEASE) is None
            pauses.append((waiting.not_before - clock.now).total_seconds())
            clock.now = waiting.not_before
        assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]


class TestCompleteIngest:
    def test_stores_chunks_and_what_was_found(self, catalog: SqlCatalog, submitted: Callable[..., Job]) -> None:
        submitted()
        job = claimed(catalog)
        chunks = [new_chunk(job.document_id, ordinal) for ordinal in (1, 0)]
        catalog.complete_ingest(job, title="Found", metadata={"pages": 2}, chunks=chunks)
        document = catalog.document(job.document_id)
        assert (document.state, document.title, document.metadata) == (DocumentState.READY, "Found", {"pages": 2})
        assert (document.chunk_count, document.error) == (2, None)
        assert catalog.chunks(job.document_id) == [replace(chunk, text="") for chunk in reversed(chunks)]
        done = catalog.job(job.id)
        assert (done.state, done.progress, done.lease_owner) == (JobState.DONE, 1.0, None)

    def test_replaces_the_chunks_of_the_version_before(
        self, catalog: SqlCatalog, ingested: Callable[..., str], submitted: Callable[..., Job]
    ) -> None:
        document_id = ingested(chunks=3)
        submitted(content="b")
        catalog.complete_ingest(claimed(catalog), title="", metadata={}, chunks=[new_chunk(document_id, 0)])
        assert [chunk.ordinal for chunk in catalog.chunks(document_id)] == [0]

    def test_changes_nothing_when_the_chunks_cannot_be_stored(
        self, catalog: SqlCatalog, ingested: Callable[..., str], submitted: Callable[..., Job]
    ) -> None:
        document_id = ingested(chunks=2)
        before = catalog.chunks(document_id)
        submitted(content="b")
        job = claimed(catalog)
        twice = [new_chunk(document_id, 7), new_chunk(document_id, 7)]
        with pytest.raises(Exception, match=r"(?i)unique"):
            catalog.complete_ingest(job, title="New", metadata={}, chunks=twice)
        assert catalog.chunks(document_id) == before
        assert catalog.job(job.id).state is JobState.RUNNING


class TestFail:
    def test_is_tried_again_after_the_pause_and_blocks_no_other(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], clock: Clock
    ) -> None:
        submitted("poison.txt")
        clock.advance(timedelta(seconds=1))
        healthy = submitted("healthy.txt")
        poison = claimed(catalog)
        catalog.fail(poison, "Error.", retry_in=timedelta(seconds=10))
        failed = catalog.job(poison.id)
        assert (failed.state, failed.error, failed.lease_owner) == (JobState.FAILED, "Error.", None)
        assert catalog.document(poison.document_id).error == "Error."
        assert claimed(catalog).id == healthy.id
        assert catalog.claim("worker-1", lease=LEASE) is None
        clock.advance(timedelta(seconds=10))
        assert claimed(catalog).id == poison.id

    def test_is_dead_after_the_last_attempt(self, catalog: SqlCatalog, submitted: Callable[..., Job]) -> None:
        submitted()
        for attempt in range(1, MAX_ATTEMPTS + 1):
            job = claimed(catalog)
            assert job.attempts == attempt
            catalog.fail(job, f"Error {attempt}.", retry_in=timedelta(0))
        assert catalog.job(job.id).state is JobState.DEAD
        assert not catalog.job(job.id).is_refused
        assert catalog.claim("worker-1", lease=LEASE) is None
        document = catalog.document(job.document_id)
        assert (document.state, document.error) == (DocumentState.FAILED, "Error 5.")

    def test_without_retry_is_dead_at_once(self, catalog: SqlCatalog, submitted: Callable[..., Job]) -> None:
        submitted()
        job = claimed(catalog)
        catalog.fail(job, "This PDF asks for a pass\0word.", retry_in=None)
        assert catalog.job(job.id).state is JobState.DEAD
        assert catalog.job(job.id).is_refused
        assert catalog.document(job.document_id).error == "This PDF asks for a pass\\x00word."
        assert not catalog.retry(job.id).is_refused

    def test_by_a_limit_may_succeed_again(self, catalog: SqlCatalog, submitted: Callable[..., Job]) -> None:
        submitted()
        job = claimed(catalog)
        catalog.fail(job, "It took longer than 60 s.", retry_in=None, may_succeed=True)
        dead = catalog.job(job.id)
        assert (dead.is_refused, dead.can_succeed_again) == (True, True)
        assert not catalog.retry(job.id).may_succeed

    def test_of_a_deletion_leaves_the_document_on_its_way_out(
        self, catalog: SqlCatalog, ingested: Callable[..., str]
    ) -> None:
        document_id = ingested()
        catalog.submit_delete(document_id)
        catalog.fail(claimed(catalog), "Error.", retry_in=None)
        document = catalog.document(document_id)
        assert (document.state, document.error) == (DocumentState.DELETING, "Error.")
        catalog.submit_delete(document_id)
        catalog.complete_delete(claimed(catalog))
        assert catalog.documents() == []


class TestCancelAndRetry:
    def test_a_queued_job_is_cancelled_at_once(self, catalog: SqlCatalog, submitted: Callable[..., Job]) -> None:
        job = submitted()
        assert catalog.cancel(job.id).state is JobState.CANCELLED
        assert catalog.claim("worker-1", lease=LEASE) is None
        document = catalog.document(job.document_id)
        assert document.state is DocumentState.FAILED
        assert document.error is not None
        assert "cancelled" in document.error

    def test_a_running_job_ends_at_its_next_heartbeat(self, catalog: SqlCatalog, submitted: Callable[..., Job]) -> None:
        submitted()
        job = claimed(catalog)
        catalog.cancel(job.id)
        with pytest.raises(LeaseLostError):
            catalog.heartbeat(job, lease=LEASE, progress=0.5)
        assert catalog.cancel(job.id).state is JobState.CANCELLED

    def test_a_finished_job_cannot_be_cancelled(self, catalog: SqlCatalog, ingested: Callable[..., str]) -> None:
        ingested()
        with pytest.raises(ConflictError, match="done"):
            catalog.cancel(catalog.jobs()[0].id)

    @pytest.mark.parametrize("end", ["dead", "cancelled", "failed"])
    def test_a_job_that_ended_badly_can_be_retried(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], end: str
    ) -> None:
        submitted()
        job = claimed(catalog)
        if end == "cancelled":
            catalog.cancel(job.id)
            catalog.release(job)
        else:
            catalog.fail(job, "Error.", retry_in=timedelta(hours=1) if end == "failed" else None)
        assert catalog.job(job.id).state == end
        retried = catalog.retry(job.id)
        assert (retried.state, retried.attempts, retried.error) == (JobState.QUEUED, 0, None)
        assert catalog.document(job.document_id).state is DocumentState.QUEUED
        again = claimed(catalog)
        assert again.id == job.id
        assert again.fencing_token > job.fencing_token

    def test_a_running_done_or_superseded_job_cannot_be_retried(
        self, catalog: SqlCatalog, submitted: Callable[..., Job]
    ) -> None:
        submitted()
        old = claimed(catalog)
        with pytest.raises(ConflictError, match="running"):
            catalog.retry(old.id)
        submitted(content="b")
        with pytest.raises(ConflictError, match="superseded"):
            catalog.retry(old.id)
        catalog.release(old)
        new = claimed(catalog)
        catalog.complete_ingest(new, title="", metadata={}, chunks=[])
        with pytest.raises(ConflictError, match="done"):
            catalog.retry(new.id)

    def test_a_job_of_a_document_that_is_gone_cannot_be_retried(
        self, catalog: SqlCatalog, submitted: Callable[..., Job]
    ) -> None:
        ingestion = submitted()
        catalog.submit_delete(ingestion.document_id)
        catalog.complete_delete(claimed(catalog))
        with pytest.raises(UnknownDocumentError):
            catalog.retry(ingestion.id)

    @pytest.mark.parametrize("act", ["job", "cancel", "retry"])
    def test_an_unknown_job_is_an_error(self, catalog: SqlCatalog, act: str) -> None:
        with pytest.raises(UnknownJobError, match="no-such-job"):
            getattr(catalog, act)("no-such-job")
