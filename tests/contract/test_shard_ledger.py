"""Claims and leases of many jobs at once, for bulk ingestion, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from catalog_samples import LEASE, LIBRARY, Clock, claimed, new_chunk, new_document
from sqlalchemy import Engine, update

from app.catalog import SqlCatalog
from app.catalog.jobs import MAX_LOST_ATTEMPTS
from app.catalog.tables import JobRow
from app.ports.ledger import IngestedDocument
from app.types.documents import DocumentState, Job, JobPriority, JobState

ENOUGH = 100


@pytest.fixture
def claimed_shard(catalog: SqlCatalog) -> Callable[..., list[Job]]:
    def claim(owner: str = "bulk-1", *, collection: str = "library", limit: int = ENOUGH) -> list[Job]:
        return catalog.shards.claim(owner, collection=collection, limit=limit, lease=LEASE)

    return claim


class TestClaim:
    def test_jobs_come_in_their_order_and_each_once(
        self, clock: Clock, submitted: Callable[..., Job], claimed_shard: Callable[..., list[Job]]
    ) -> None:
        ids = []
        for number in range(5):
            ids.append(submitted(f"{number}.txt").id)
            clock.advance(timedelta(seconds=1))
        assert [job.id for job in claimed_shard(limit=3)] == ids[:3]
        rest = claimed_shard("bulk-2")
        assert [job.id for job in rest] == ids[3:]
        assert {(job.state, job.lease_owner, job.attempts, job.fencing_token) for job in rest} == {
            (JobState.RUNNING, "bulk-2", 1, 1)
        }
        assert claimed_shard() == []

    def test_interactive_jobs_come_first(
        self, catalog: SqlCatalog, clock: Clock, claimed_shard: Callable[..., list[Job]]
    ) -> None:
        for uri, priority in (("bulk.txt", JobPriority.BULK), ("one.txt", JobPriority.INTERACTIVE)):
            catalog.submit("library", new_document(uri), priority=priority)
            clock.advance(timedelta(seconds=1))
        assert [job.priority for job in claimed_shard()] == [JobPriority.INTERACTIVE, JobPriority.BULK]

    def test_other_collections_are_left_alone(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], claimed_shard: Callable[..., list[Job]]
    ) -> None:
        catalog.create_collection(replace(LIBRARY, name="other", active_index="other--1"))
        catalog.submit("other", new_document())
        own = submitted()
        assert [job.id for job in claimed_shard()] == [own.id]
        assert claimed(catalog).collection == "other"

    def test_a_paused_collection_gives_nothing(
        self, catalog: SqlCatalog, clock: Clock, submitted: Callable[..., Job], claimed_shard: Callable[..., list[Job]]
    ) -> None:
        submitted()
        submitted("taken.txt")
        claimed_shard(limit=1)
        clock.advance(LEASE)
        catalog.pause("library")
        assert claimed_shard() == []


class TestAttempts:
    def test_a_job_that_was_not_begun_is_not_attempted_however_often_its_owner_is_killed(
        self, clock: Clock, submitted: Callable[..., Job], claimed_shard: Callable[..., list[Job]]
    ) -> None:
        submitted()
        for token in range(1, 9):
            [job] = claimed_shard()
            assert (job.attempts, job.fencing_token) == (1, token)
            clock.advance(LEASE)

    def test_one_that_was_begun_each_time_is_given_up(
        self, catalog: SqlCatalog, clock: Clock, submitted: Callable[..., Job], claimed_shard: Callable[..., list[Job]]
    ) -> None:
        submitted()
        for _ in range(MAX_LOST_ATTEMPTS):
            [job] = claimed_shard()
            catalog.shards.heartbeat({job: 0.5}, lease=LEASE)
            clock.advance(LEASE)
        assert claimed_shard() == []
        assert catalog.job(job.id).state is JobState.DEAD


class TestAlike:
    """What is claimed beside a small document, to be ingested together with it."""

    @pytest.fixture
    def alike(self, catalog: SqlCatalog) -> Callable[..., list[Job]]:
        def claim(job: Job, *, limit: int = ENOUGH, owner: str = "worker-1") -> list[Job]:
            return catalog.shards.claim_batch(job, owner, limit=limit, max_bytes=100, max_attempts=2, lease=LEASE)

        return claim

    def test_they_are_due_and_small_and_of_its_collection_and_priority(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], alike: Callable[..., list[Job]], clock: Clock
    ) -> None:
        catalog.create_collection(replace(LIBRARY, name="other", active_index="other--1"))
        submitted("first.txt")
        first = claimed(catalog)
        wanted = []
        for number in range(3):
            clock.advance(timedelta(seconds=1))
            wanted.append(submitted(f"{number}.txt", byte_count=100).id)
        large = submitted("large.txt", byte_count=101)
        catalog.submit("other", new_document())
        catalog.submit("library", new_document("bulk.txt"), priority=JobPriority.BULK)
        found = alike(first)
        assert [job.id for job in found] == wanted
        assert {(job.state, job.lease_owner, job.attempts) for job in found} == {(JobState.RUNNING, "worker-1", 1)}
        assert catalog.job(large.id).state is JobState.QUEUED
        assert alike(first) == []

    def test_at_most_so_many(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], alike: Callable[..., list[Job]]
    ) -> None:
        for number in range(6):
            submitted(f"{number}.txt")
        assert [len(alike(claimed(catalog), limit=3)), len(alike(claimed(catalog), limit=3))] == [3, 1]

    def test_what_a_lost_worker_had_in_flight_is_taken_until_it_has_ended_two(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], alike: Callable[..., list[Job]], clock: Clock
    ) -> None:
        for number in range(3):
            submitted(f"{number}.txt")
        for _ in range(2):
            assert len(alike(claimed(catalog))) == 2
            clock.advance(LEASE)
        assert alike(claimed(catalog)) == []

    def test_none_beside_a_large_document_or_in_a_paused_collection(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], alike: Callable[..., list[Job]]
    ) -> None:
        submitted("large.txt", byte_count=101)
        large = claimed(catalog)
        submitted("first.txt")
        submitted("second.txt")
        assert alike(large) == []
        first = claimed(catalog)
        catalog.pause("library")
        assert alike(first) == []
        catalog.resume("library")
        assert len(alike(first)) == 1


class TestCompleteMany:
    def test_is_done_for_those_that_are_still_held(
        self,
        catalog: SqlCatalog,
        engine: Engine,
        submitted: Callable[..., Job],
        claimed_shard: Callable[..., list[Job]],
    ) -> None:
        for number in range(4):
            submitted(f"{number}.txt")
        shard = claimed_shard()
        cancelled, overtaken = shard[1], shard[2]
        catalog.cancel(cancelled.id)
        with engine.begin() as connection:
            connection.execute(update(JobRow).where(JobRow.id == overtaken.id).values(fencing_token=9))
        done = {
            job: IngestedDocument(f"Title {number}", {"number": number}, [new_chunk(job.document_id)])
            for number, job in enumerate(shard)
        }
        assert catalog.complete_many(done) == {shard[0].id, shard[3].id}
        states = [(catalog.job(job.id).state, len(catalog.chunks(job.document_id))) for job in shard]
        assert states == [(JobState.DONE, 1), (JobState.CANCELLED, 0), (JobState.RUNNING, 0), (JobState.DONE, 1)]
        last = catalog.document(shard[3].document_id)
        assert (last.state, last.title, last.metadata, last.chunk_count) == (
            DocumentState.READY,
            "Title 3",
            {"number": 3},
            1,
        )


class TestLeases:
    def test_a_heartbeat_prolongs_them_all_and_tells_progress(
        self, catalog: SqlCatalog, clock: Clock, submitted: Callable[..., Job], claimed_shard: Callable[..., list[Job]]
    ) -> None:
        for number in range(3):
            submitted(f"{number}.txt")
        shard = claimed_shard()
        clock.advance(LEASE - timedelta(seconds=1))
        assert catalog.shards.heartbeat(dict.fromkeys(shard, 0.25), lease=LEASE) == {job.id for job in shard}
        clock.advance(timedelta(seconds=2))
        assert claimed_shard("bulk-2") == []
        assert [catalog.job(job.id).progress for job in shard] == [0.25] * 3

    def test_those_cancelled_taken_over_and_done_are_no_longer_held(
        self, catalog: SqlCatalog, clock: Clock, submitted: Callable[..., Job], claimed_shard: Callable[..., list[Job]]
    ) -> None:
        for number in range(4):
            submitted(f"{number}.txt")
        cancelled, finished, kept, overtaken = claimed_shard()
        catalog.cancel(cancelled.id)
        catalog.complete_ingest(finished, title="", metadata={}, chunks=[])
        shard = [cancelled, finished, kept]
        assert (
            catalog.shards.held(shard) == catalog.shards.heartbeat(dict.fromkeys(shard, 0.1), lease=LEASE) == {kept.id}
        )
        clock.advance(LEASE)
        newer = {job.id: job for job in claimed_shard("bulk-2")}
        assert catalog.shards.held([kept, overtaken]) == set()
        assert catalog.shards.heartbeat({overtaken: 0.9}, lease=LEASE) == set()
        assert catalog.job(overtaken.id).progress == newer[overtaken.id].progress

    def test_a_paused_collection_holds_none(
        self, catalog: SqlCatalog, submitted: Callable[..., Job], claimed_shard: Callable[..., list[Job]]
    ) -> None:
        submitted()
        shard = claimed_shard()
        catalog.pause("library")
        assert catalog.shards.held(shard) == catalog.shards.heartbeat(dict.fromkeys(shard, 0.5), lease=LEASE) == set()
