"""The whole catalog: `Catalog`, and what workers and operators do, as claims, leases, indexes and garbage. Ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from app.ports.access import AccessLedger
from app.ports.catalog import Catalog, LensIndexRecords, SearchedCatalog
from app.ports.searches import SearchRecords
from app.ports.sources import RecurringSourceLedger
from app.ports.standing import StandingLedger
from app.types.documents import (
    Chunk,
    Collection,
    Document,
    DocumentKey,
    DocumentRecord,
    GarbageItem,
    GarbageKind,
    IndexRole,
    Job,
    JobPriority,
    Judgement,
    Metadata,
    NewDocument,
    StoredFile,
)
from app.types.lens_indexes import LensIndex
from app.types.standing import Told
from app.types.upkeep import JobReport
from app.types.weights import WeightTuning


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


class ShardLedger(Protocol):
    """Claims, leases and records of many jobs in one transaction. A part of `Ledger`."""

    def claim_shard(self, owner: str, *, collection: str, limit: int, lease: timedelta) -> list[Job]:
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

    def heartbeat_shard(self, progress: Mapping[Job, float], *, lease: timedelta) -> set[str]:
        """Prolongs the leases. Ids of the jobs that are still held: neither cancelled, taken over nor paused."""
        ...

    def held_jobs(self, claimed: Iterable[Job]) -> set[str]:
        """What `heartbeat_shard` would return; writes nothing."""
        ...

    def complete_many(self, done: Mapping[Job, IngestedDocument], *, told: Told | None = None) -> set[str]:
        """`complete_ingest` of many jobs of one collection, in one transaction, and what standing searches found in
        their documents. Raises StandingChangedError where these are not the ones that stand there now.

        Ids of those that are done; the others were cancelled or taken over, and nothing is changed for them.
        """
        ...


class IndexLedger(Protocol):
    """Which physical indexes a collection has, what each holds, and what is to be removed. A part of `Ledger`."""

    def reserve_index(self, collection: str, *, lease: timedelta) -> str:
        """A name that no index ever had. Unless it is put to use or prolonged within the lease, it is removed."""
        ...

    def prolong_reservation(self, index: str, *, lease: timedelta) -> None:
        """Raises ConflictError when it has ended."""
        ...

    def index_names(self, collection: str) -> list[str]:
        """The active index first, then those beside it."""
        ...

    def add_building_index(self, target: Collection) -> None:
        """Puts the reserved `target.active_index` beside the active one. Raises ConflictError when one is built."""
        ...

    def unindexed_documents(self, collection: str, index: str, *, after: str = "", limit: int = 100) -> list[Document]:
        """In the order of ids, after the id `after`: documents whose present revision the index does not hold."""
        ...

    def count_unindexed(self, collection: str, index: str) -> int: ...
    def record_indexed(self, index: str, document: Document, chunks: Iterable[Chunk]) -> bool:
        """The index, which stands by, holds these chunks. False when the document has changed or is going."""
        ...

    def chunk_count(self, index: str) -> int: ...
    def forget_indexed(self, index: str, *, document_id: str | None = None) -> None:
        """As when nothing, or nothing of this document, had been written to this index."""
        ...

    def chunk_pages(self, index: str) -> Iterator[list[Chunk]]:
        """All chunks that the index should hold, in the order of their ids."""
        ...

    def sample_chunks(self, index: str, *, count: int) -> list[str]:
        """Ids of about so many chunks that the index should hold, from all over it."""
        ...

    def is_at_rest(self, collection: str) -> bool:
        """Whether no document of it has an open job, so that index and catalog should agree."""
        ...

    def stored_files(self, collection: str) -> Iterator[list[StoredFile]]:
        """Those of documents that are not going, page by page."""
        ...

    def chunk_owners(self, index: str, ids: Sequence[str]) -> dict[str, str]:
        """Chunk → document, of those ids that are chunks of this index."""
        ...

    def chunk_rows(self, index: str, ids: Sequence[str]) -> dict[str, Chunk]:
        """Those of these ids that are chunks of this index, without their texts."""
        ...

    def documents_at_rest(self, ids: Sequence[str]) -> dict[str, Document]:
        """Those of these ids that are ready and have no open job, so that index and catalog should agree on them."""
        ...

    def miscounted_documents(self, collection: str, index: str) -> list[str]:
        """Ids of documents at rest of whose chunks in the active index the catalog has another number than it says, or
        another revision."""
        ...

    def unqueued_documents(self, ids: Sequence[str]) -> dict[str, bool]:
        """Of those that exist: whether they have no open job, so that index and catalog should agree on them."""
        ...

    def queue_again(self, document_id: str) -> bool:
        """Queues the ingestion of a ready document, or the deletion of one that is going. False for all others."""
        ...

    def switch_index(self, collection: str, role: IndexRole) -> bool:
        """Makes the index of this role the active one, and the active one the previous one, in one transaction.

        False when there is none, or one that was built lacks a document. After a roll-back documents that changed
        since are queued again. Ingestion that is running starts over.
        """
        ...

    def discard_index(self, collection: str, role: IndexRole) -> str | None:
        """Its name, when there was one; it is to be removed."""
        ...

    def document_records(self, collection: str) -> Iterator[list[DocumentRecord]]:
        """All documents but those that are going, page by page."""
        ...

    def restore_collection(self, collection: Collection, rows: Iterable[DocumentRecord | Chunk | Judgement]) -> None:
        """Makes the collection, whose index is reserved, in one transaction. Each document comes before what is its.

        What was waiting to be ingested is queued. Raises ConflictError when the name or a document id is taken.
        """
        ...

    def garbage(self, *, limit: int = 100) -> list[GarbageItem]:
        """Those that are due."""
        ...

    def reserved_names(self, kind: GarbageKind) -> list[str]:
        """Of all garbage, due or not."""
        ...

    def note_garbage(self, kind: GarbageKind, names: Sequence[str], *, due_in: timedelta) -> None: ...
    def forget_garbage(self, garbage_item: GarbageItem) -> None: ...
    def needs_file(self, content_hash: str) -> bool: ...


class LensIndexLedger(LensIndexRecords, Protocol):
    """Lens indexes, and the jobs that build them. A part of `Ledger`."""

    def lens_index(self, index_id: str) -> LensIndex:
        """Raises NotFoundError."""
        ...

    def queue_lens_index(self, collection: str, lens: str, values: Sequence[str]) -> LensIndex:
        """Makes the index of this lens, or gives it these values, and queues a job that builds it.

        Raises UnknownCollectionError.
        """
        ...

    def queue_lens_indexes(self, collection: str, *, is_lost: bool = False) -> None:
        """All of the collection are looked through once more. `is_lost`: what they had in the vector index is gone."""
        ...

    def begin_lens_index(self, job: Job, *, index: str, field: str) -> None:
        """Before anything is written there. Raises LeaseLostError."""
        ...

    def complete_lens_index(self, job: Job, built: LensIndex) -> bool:
        """Marks the job done. False when the index was queued again since `built` was read, or another physical index
        became the active one. Raises LeaseLostError."""
        ...

    def delete_lens_index(self, collection: str, lens: str) -> bool:
        """With its job; labels are noted as garbage. False when there is none. Raises UnknownCollectionError."""
        ...


class Completion(Protocol):
    """How the ingestion of documents ends."""

    def __call__(self, collection: Collection, done: Mapping[Job, IngestedDocument]) -> set[str]:
        """`complete_many`, which tells the searches that stand over the collection what is new in them."""
        ...


class Ledger(
    Catalog,
    JobLedger,
    ShardLedger,
    IndexLedger,
    LensIndexLedger,
    SearchedCatalog,
    SearchRecords,
    StandingLedger,
    RecurringSourceLedger,
    AccessLedger,
    Protocol,
):
    """The whole catalog, the one source of truth for state. A document row and its job commit in one transaction."""

    def create_collection(self, collection: Collection) -> Collection:
        """Returns the existing one when the name is taken by an identical contract, else raises ConflictError."""
        ...

    def delete_collection(self, name: str) -> None: ...
    def submit(
        self,
        collection: str,
        document: NewDocument,
        *,
        priority: JobPriority = JobPriority.INTERACTIVE,
    ) -> tuple[Document, Job | None]:
        """Adds or replaces the document with this uri and queues its ingestion.

        The job is None when the document is ready with the same content hash and metadata: nothing is to be done.
        A document that `moved_from` another uri keeps its id and so its points. Nothing moves when that document is
        gone, or this uri is another one's already.
        """
        ...

    def submit_many(
        self, collection: str, documents: Sequence[NewDocument], *, priority: JobPriority = JobPriority.BULK
    ) -> list[tuple[Document, Job | None]]:
        """As `submit`, one after the other, but in one transaction; writes nothing when nothing is to be done.

        Raises InputError, and adds none of them, when one cannot be kept.
        """
        ...

    def move_documents(self, document_ids: Sequence[str], collection: str) -> list[tuple[Document, Job | None]]:
        """Submits these documents to another collection and queues their deletion where they are, in one transaction.

        Raises UnknownDocumentError, also for one that is being deleted, and ConflictError where the collection is
        theirs already, or has another document with the uri of one; nothing is changed then.
        """
        ...

    def document_keys(self, collection: str, *, uri_prefix: str) -> list[DocumentKey]:
        """Of all documents whose uri begins so, in the order of uris; none when there is no such collection."""
        ...

    def replace_judgements(self, collection: str, judged_by: str, judgements: Sequence[Judgement]) -> int:
        """Puts these in the place of all that were made under this name, in one transaction; returns their number.

        Of several judgements of the same query and document the last one counts. Raises UnknownCollectionError, and
        ConflictError when a document is not of the collection, or gone; everything is as it was then.
        """
        ...

    def counterparts(self, document_ids: Sequence[str], collection: str) -> dict[str, str]:
        """Document → the one of `collection` with its uri, or else with its content; left out where there is none."""
        ...

    def weight_tunings(self, collection: str) -> list[WeightTuning]:
        """The newest first. Raises UnknownCollectionError."""
        ...

    def save_weight_tuning(self, tuning: WeightTuning) -> None:
        """One that is applied takes the place of the one that was. The oldest beyond MAX_TUNINGS go.

        Raises UnknownCollectionError.
        """
        ...

    def undo_weight_tuning(self, collection: str) -> WeightTuning | None:
        """Back to the defaults; the one that was applied, None where there was none. Raises UnknownCollectionError."""
        ...
