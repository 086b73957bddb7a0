"""What the catalog keeps beside documents and jobs, as protocols: the parts of the port `Catalog`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from app.types.documents import (
    Chunk,
    Collection,
    Document,
    DocumentRecord,
    DocumentState,
    FacetValue,
    GarbageItem,
    GarbageKind,
    IdempotencyRecord,
    IndexRole,
    Job,
    Judgement,
    Lens,
    Metadata,
    PageStart,
)
from app.types.evaluation import JudgementSource


class IndexLedger(Protocol):
    """Which physical indexes a collection has, what each holds, and what is to be removed. A part of `Catalog`."""

    def reserve_index(self, collection: str, *, lease: timedelta) -> str:
        """A name that no index ever had. Unless it is put to use or prolonged within the lease, it is removed."""
        ...

    def prolong_reservation(self, index: str, *, lease: timedelta) -> None:
        """Raises ConflictError when it has ended."""
        ...

    def index_names(self, collection: str) -> list[str]:
        """The active index first, then those beside it."""
        ...

    def standby(self, collection: str, role: IndexRole) -> Collection | None:
        """The collection as it is when its index of this role is the active one: its name, and the contract."""
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

    def chunk_owners(self, index: str, ids: Sequence[str]) -> dict[str, str]:
        """Chunk → document, of those ids that are chunks of this index."""
        ...

    def unqueued_documents(self, ids: Sequence[str]) -> dict[str, bool]:
        """Of those that exist: whether no job of theirs is open, so that index and catalog should agree on them."""
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


@dataclass(frozen=True, slots=True)
class IngestedDocument:
    """What was found in a document that is in the index now. Its chunks can be read as often as is wanted."""

    title: str
    metadata: Metadata
    chunks: Iterable[Chunk]


class ShardLedger(Protocol):
    """Claims, leases and records of many jobs in one transaction. A part of `Catalog`."""

    def claim_shard(self, owner: str, *, collection: str, limit: int, lease: timedelta) -> list[Job]:
        """Takes at most `limit` jobs of this one collection, and asks for no turns: somebody wants just this done.

        A job that was taken before and whose progress is still 0 was not attempted: a killed owner may have had
        thousands in hand.
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

    def complete_many(self, done: Mapping[Job, IngestedDocument]) -> set[str]:
        """`complete_ingest` of many jobs of one collection, in one transaction.

        Ids of those that are done; the others were cancelled or taken over, and nothing is changed for them.
        """
        ...


class JobQueue(Protocol):
    """What those who watch the queue ask. A part of `Catalog`."""

    def queue_age(self) -> timedelta:
        """How long the waiting job that was due first has been due; zero when none is. Paused collections wait by
        intent and are left out."""
        ...


class DocumentLists(Protocol):
    """What people look at: lists of documents, their counts, and the metadata that they share. A part of `Catalog`."""

    def find_documents(
        self, collection: str, *, text: str = "", state: DocumentState | None = None, limit: int = 100, offset: int = 0
    ) -> list[Document]:
        """Newest first. `text` is a part of the title or the uri, in whichever case."""
        ...

    def count_documents(self, collection: str, *, text: str = "") -> dict[DocumentState, int]:
        """Those that `find_documents` finds, by state; every state is there."""
        ...

    def latest_jobs(self, document_ids: Sequence[str]) -> dict[str, Job]:
        """By the id of the document."""
        ...

    def find_chunk(self, document_id: str, chunk_id: str) -> Chunk | None:
        """A chunk of the active index; None when the document has no such chunk, or no more."""
        ...

    def page_starts(self, document_id: str, *, start: int, end: int) -> list[PageStart]:
        """Of the pages that a passage of characters [start, end) is the first one of; empty without pages."""
        ...

    def facets(self, collection: str, filters: Mapping[str, str] | None = None) -> dict[str, list[FacetValue]]:
        """How many searchable documents have which metadata: keys and values by number of documents, the most first.

        At most 12 keys with 20 values each. `filters` are read as in a search; a key's own filter is left out of its
        counts, which so say what choosing another value would give. Raises UnknownCollectionError and FilterError.
        """
        ...


class LensesAndJudgements(Protocol):
    """What people keep: ways of looking, and how well documents answered. A part of `Catalog`."""

    def lenses(self) -> list[Lens]:
        """In the order of names."""
        ...

    def lens(self, name: str) -> Lens:
        """Raises UnknownLensError."""
        ...

    def save_lens(self, lens: Lens) -> None:
        """Replaces the one of this name."""
        ...

    def delete_lens(self, name: str) -> None:
        """Raises UnknownLensError."""
        ...

    def save_judgement(self, judgement: Judgement) -> None:
        """Replaces what this person said before of this document, query and instruction.

        Raises UnknownDocumentError. With its document a judgement goes.
        """
        ...

    def delete_judgement(self, judgement: Judgement) -> bool:
        """False when there was none by this person of this document, query and instruction."""
        ...

    def judgement_pages(self, collection: str) -> Iterator[list[Judgement]]:
        """All of the collection, page by page, those of one document together."""
        ...

    def replace_judgements(self, collection: str, judged_by: str, judgements: Sequence[Judgement]) -> int:
        """Puts these in the place of all that were made under this name, in one transaction; returns their number.

        Of several judgements of the same query and document the last one counts. Raises UnknownCollectionError, and
        ConflictError when a document is not of the collection, or gone; everything is as it was then.
        """
        ...

    def judgement_sources(self, collection: str) -> list[JudgementSource]:
        """In the order of names."""
        ...

    def counterparts(self, document_ids: Sequence[str], collection: str) -> dict[str, str]:
        """Document → the one of `collection` with its uri, or else with its content; left out where there is none."""
        ...


class IdempotencyRecords(Protocol):
    """Answers under the idempotency keys of callers: a request sent twice is done once. A part of `Catalog`."""

    def begin_answer(self, caller: str, key: str, *, digest: str, lease: timedelta) -> IdempotencyRecord | None:
        """None: the key is new, or whoever began under it was lost; the request is to be done now, within the lease.

        Else what there is under it: an answer, or, without a status, a request that is being done.
        """
        ...

    def keep_answer(self, caller: str, key: str, *, status: int, body: str, keep: timedelta) -> None: ...
    def forget_answer(self, caller: str, key: str) -> None:
        """The request failed: the next one under this key is done anew."""
        ...
