"""Ports: what workers and metrics need of the catalog, such as claims, leases and garbage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from app.ports.catalog import Catalog
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
        """Until a job may have become due (True), or the time is over. Raises CatalogUnavailableError."""
        ...


@dataclass(frozen=True, slots=True)
class IngestedDocument:
    """What was found in a document that is in the index now. Its chunks can be read as often as is wanted."""

    title: str
    metadata: Metadata
    chunks: Iterable[Chunk]


class JobLedger(Protocol):
    """Claims of jobs, their leases, and what came of them. A part of `Ledger`."""

    def claim(self, owner: str, *, lease: timedelta) -> Job | None:
        """Takes a job whose lease ended; else one that is due, by priority, the collections taking turns.

        Within a priority, the collection with the fewest running jobs comes first, then the one whose last claim is
        oldest; within a collection, the job that has been due for longest. Paused collections are passed over.
        """
        ...

    def jobs_ahead(self) -> int:
        """How many are leased or scheduled for longer than anything here does: a clock jumped. A claim that finds
        nothing else takes them up."""
        ...

    def listening(self) -> AbstractContextManager[JobListener]:
        """Hears of jobs that become due from the start of the block on, where the database can tell."""
        ...

    def heartbeat(self, job: Job, *, lease: timedelta, progress: float) -> None:
        """Prolongs the lease. Raises LeaseLostError when the fencing token is not the newest, or it was cancelled;
        CollectionPausedError when the job is to be given back."""
        ...

    def check_lease(self, job: Job) -> None:
        """Raises what `heartbeat` would raise, and writes nothing."""
        ...

    def complete_ingest(self, job: Job, *, title: str, metadata: Metadata, chunks: Iterable[Chunk]) -> None:
        """Marks job done and document ready and replaces its chunks, in one transaction. May raise LeaseLostError."""
        ...

    def complete_delete(self, job: Job) -> None: ...
    def fail(self, job: Job, reason: str, *, retry_in: timedelta | None) -> None:
        """With `retry_in` the job is tried again after it; without, or after the last attempt, it is dead."""
        ...

    def release(self, job: Job, *, reason: str | None = None) -> None:
        """Gives a claimed job back without counting the attempt; no error when it was cancelled or taken over.

        With a reason (a part that is needed is away) it is due again after a pause that grows to a minute.
        """
        ...

    def job_reports(self, job_ids: Sequence[str]) -> dict[str, JobReport]:
        """By id; jobs that were removed with their collection are left out."""
        ...

    def queue_age(self) -> timedelta:
        """How long the waiting job that was due first has been due; zero when none is. Paused collections wait by
        intent and are left out."""
        ...

    def complete_many(self, done: Mapping[Job, IngestedDocument], *, told: Told | None = None) -> set[str]:
        """`complete_ingest` of many jobs of one collection, in one transaction, and what standing searches found in
        their documents. Raises StandingChangedError where these are not the ones that stand there now.

        Ids of those that are done; the others were cancelled or taken over, and nothing is changed for them.
        """
        ...


class ShardLedger(Protocol):
    """Claims and leases of many jobs in one transaction."""

    def claim(self, owner: str, *, collection: str, limit: int, lease: timedelta) -> list[Job]:
        """Takes at most `limit` jobs of this one collection, without turns: this one was asked for.

        A job that was taken before and whose progress is still 0 was not attempted: a killed owner may have had
        thousands in flight.
        """
        ...

    def claim_batch(
        self, job: Job, owner: str, *, limit: int, max_bytes: int, max_attempts: int, lease: timedelta
    ) -> list[Job]:
        """Takes small documents that are to be ingested just as that of `job`, which was claimed before.

        At most `limit` jobs of its collection and its priority, due or abandoned, that began less than `max_attempts`
        times. None when the job's own document is larger than `max_bytes`, or its collection is paused.
        """
        ...

    def documents_of(self, claimed: Iterable[Job]) -> dict[str, Document]:
        """By the id of the document; those that are gone are left out."""
        ...

    def heartbeat(self, progress: Mapping[Job, float], *, lease: timedelta) -> set[str]:
        """Prolongs the leases. Ids of the jobs that are still held: neither cancelled, taken over nor paused."""
        ...

    def held(self, claimed: Iterable[Job]) -> set[str]:
        """What `heartbeat` would return; writes nothing."""
        ...


class GarbageLedger(Protocol):
    """Garbage that the catalog noted, for whoever removes it."""

    def due(self) -> list[GarbageItem]: ...
    def forget(self, garbage_item: GarbageItem) -> None: ...
    def needs_file(self, content_hash: str) -> bool:
        """Whether a document has this file."""
        ...


class IdleDocuments(Protocol):
    def unqueued_documents(self, ids: Sequence[str]) -> dict[str, bool]:
        """Of the documents that exist: whether they have no open job."""
        ...


class Completion(Protocol):
    """How the ingestion of documents ends."""

    def __call__(self, collection: Collection, done: Mapping[Job, IngestedDocument]) -> set[str]:
        """`complete_many`, which tells the searches that stand over the collection what is new in them."""
        ...


class Ledger(Catalog, JobLedger, Protocol):
    """The catalog as workers and metrics need it."""

    @property
    def shards(self) -> ShardLedger: ...
    @property
    def garbage(self) -> GarbageLedger: ...
    @property
    def consistency(self) -> IdleDocuments: ...
    def index_names(self, collection: str) -> list[str]:
        """The active index first, then those beside it."""
        ...

    def queue_lens_indexes(self, collection: str) -> None:
        """Queues a job for each lens index of the collection, which adds the labels that are missing."""
        ...
