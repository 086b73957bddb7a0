"""Ports: the catalog as workers and metrics use it: claims, leases, garbage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from app.ports.catalog import Catalog, LensIndexRecords
from app.types.documents import (
    Chunk,
    Collection,
    Document,
    GarbageItem,
    Job,
    Metadata,
)
from app.types.standing import Told
from app.types.upkeep import JobReport


class JobListener(Protocol):
    def wait(self, timeout_s: float) -> bool:
        """Waits until a job may be due (True) or the timeout passes (False). Raises CatalogUnavailableError."""
        ...


@dataclass(frozen=True, slots=True)
class IngestedDocument:
    """The result of parsing a document that is now in the index. Its chunks can be iterated more than once."""

    title: str
    metadata: Metadata
    chunks: Iterable[Chunk]


class ShardLedger(Protocol):
    """Claims and leases of many jobs in one transaction."""

    def claim(self, owner: str, *, collection: str, limit: int, lease: timedelta) -> list[Job]:
        """Claim at most `limit` jobs of this collection, without taking turns.

        A previously claimed job with progress 0 does not count as attempted: a killed owner may have held thousands.
        """
        ...

    def claim_batch(
        self, job: Job, owner: str, *, limit: int, max_bytes: int, max_attempts: int, lease: timedelta
    ) -> list[Job]:
        """Claim small documents to ingest together with that of `job`, which is already claimed.

        At most `limit` due or abandoned jobs of its collection and priority with fewer than `max_attempts` attempts.
        Empty if the job's own document exceeds `max_bytes` or its collection is paused.
        """
        ...

    def documents_of(self, claimed: Iterable[Job]) -> dict[str, Document]:
        """Keyed by document id, without deleted documents."""
        ...

    def heartbeat(self, progress: Mapping[Job, float], *, lease: timedelta) -> set[str]:
        """Extend the leases. Returns the ids of jobs still held: not cancelled, taken over or paused."""
        ...

    def held(self, claimed: Iterable[Job]) -> set[str]:
        """The result of `heartbeat`, without writing."""
        ...


class GarbageLedger(Protocol):
    """Garbage noted by the catalog, for the garbage collector."""

    def due(self) -> list[GarbageItem]: ...
    def forget(self, garbage_item: GarbageItem) -> None: ...
    def needs_file(self, content_hash: str) -> bool:
        """True if any document uses this file."""
        ...


class IdleDocuments(Protocol):
    def unqueued_documents(self, ids: Sequence[str]) -> dict[str, bool]:
        """Maps each existing document to True if it has no open job."""
        ...


class IndexNames(Protocol):
    def names(self, collection: str) -> list[str]:
        """The active index first, then the standby indexes."""
        ...


class Completion(Protocol):
    """Completes the ingestion of documents."""

    def __call__(self, collection: Collection, done: Mapping[Job, IngestedDocument]) -> set[str]:
        """`complete_many`, including the matches of the collection's standing searches."""
        ...


class Ledger(Catalog, Protocol):
    """The catalog as workers and metrics use it."""

    @property
    def shards(self) -> ShardLedger: ...
    @property
    def garbage(self) -> GarbageLedger: ...
    @property
    def consistency(self) -> IdleDocuments: ...
    @property
    def indexes(self) -> IndexNames: ...
    @property
    def lens_indexes(self) -> LensIndexRecords: ...

    def claim(self, owner: str, *, lease: timedelta) -> Job | None:
        """Claim a job with an expired lease, else the next due job by priority, round-robin over collections.

        Within a priority, the collection with the fewest running jobs comes first, then the one with the oldest last
        claim; within a collection, the job that became due first. Paused collections are skipped.
        """
        ...

    def jobs_ahead(self) -> int:
        """Number of jobs leased or scheduled implausibly far ahead, after a clock jump. A claim that finds no other
        job makes them due again.
        """
        ...

    def listening(self) -> AbstractContextManager[JobListener]:
        """Listens from the start of the block for jobs that become due, if the database supports it."""
        ...

    def heartbeat(self, job: Job, *, lease: timedelta, progress: float) -> None:
        """Extend the lease. Raises LeaseLostError if the fencing token is outdated or the job was cancelled;
        CollectionPausedError if the worker should return the job to the queue.
        """
        ...

    def check_lease(self, job: Job) -> None:
        """Raises what `heartbeat` would raise, without writing."""
        ...

    def complete_ingest(self, job: Job, *, title: str, metadata: Metadata, chunks: Iterable[Chunk]) -> None:
        """Mark the job done and the document ready, and replace its chunks, in one transaction. Raises
        LeaseLostError.
        """
        ...

    def complete_delete(self, job: Job) -> None: ...
    def fail(self, job: Job, reason: str, *, retry_in: timedelta | None, may_succeed: bool = False) -> None:
        """With `retry_in`, the job is retried after that time; without, or after the last attempt, it is dead.
        may_succeed: by a limit of the server (ServerLimitError), so that a person may try it again."""
        ...

    def release(self, job: Job, *, reason: str | None = None, is_suspect: bool = False) -> None:
        """Return a claimed job to the queue without counting the attempt. No error if it was cancelled or taken over.

        With a reason (an unavailable component), it is due again after a pause that grows to a minute. If the job may
        be the reason (`is_suspect`), the attempt counts, as if its worker had been lost.
        """
        ...

    def job_reports(self, job_ids: Sequence[str]) -> dict[str, JobReport]:
        """Keyed by job id, without jobs that were deleted with their collection."""
        ...

    def queue_age(self) -> timedelta:
        """How long the longest-waiting due job has been due; zero without one. Ignores paused collections."""
        ...

    def complete_many(self, done: Mapping[Job, IngestedDocument], *, told: Told | None = None) -> set[str]:
        """`complete_ingest` for many jobs of one collection, in one transaction, with the matches of standing searches.
        Raises StandingChangedError if these searches changed meanwhile.

        Returns the ids of completed jobs; jobs that were cancelled or taken over stay unchanged.
        """
        ...
