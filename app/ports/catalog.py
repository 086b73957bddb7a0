"""What interfaces may ask of the catalog: each method is one that an authorizer can decide on. A port."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from app.types.documents import (
    Chunk,
    Collection,
    CountedCollection,
    Document,
    DocumentState,
    FacetValue,
    IndexRole,
    Job,
    JobState,
    Judgement,
    Lens,
    PageStart,
)
from app.types.evaluation import JudgementSource
from app.types.idempotency import IdempotencyRecord
from app.types.lens_indexes import LensIndex
from app.types.search import Leg


class DocumentLists(Protocol):
    """Lists of documents, their counts, and the metadata that they share. A part of `Catalog`."""

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
    """Lenses, and judgements of documents. A part of `Catalog`."""

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

        Raises UnknownDocumentError, and ConflictError where this person has said as much as is kept. With its document
        a judgement goes.
        """
        ...

    def delete_judgement(self, judgement: Judgement) -> bool:
        """False when there was none by this person of this document, query and instruction."""
        ...

    def judgement_pages(self, collection: str) -> Iterator[list[Judgement]]:
        """All of the collection, page by page, those of one document together."""
        ...

    def judgement_sources(self, collection: str) -> list[JudgementSource]:
        """In the order of names."""
        ...


class TunedWeights(Protocol):
    """Weights of legs that were tuned for collections. A part of `Catalog`."""

    def leg_weights(self, collection: str) -> Mapping[Leg, float] | None:
        """Those that are applied; None: the defaults, as for a collection that is not there."""
        ...


class IdempotencyRecords(Protocol):
    """Answers under the idempotency keys of callers: a request sent twice is done once. A part of `Catalog`."""

    def begin_answer(self, caller: str, key: str, *, digest: str, lease: timedelta) -> IdempotencyRecord | None:
        """None: the key is new, or its process died; the request is to be done now, within the lease.

        Else what there is under it: an answer, or, without a status, a request that is being done.
        """
        ...

    def keep_answer(self, caller: str, key: str, *, status: int, body: str, keep: timedelta) -> None: ...
    def forget_answer(self, caller: str, key: str) -> None:
        """The request failed: the next one under this key is done anew."""
        ...


class LensIndexRecords(Protocol):
    def lens_indexes(self, collection: str, *, with_jobs: bool = True) -> list[LensIndex]:
        """In the order of their lenses; none when there is no such collection. Without jobs it is half the work."""
        ...


class SearchedCatalog(LensIndexRecords, TunedWeights, Protocol):
    """What a search asks of the catalog."""

    def uncounted_collections(self) -> list[Collection]:
        """In the order of their names."""
        ...

    def collection(self, name: str) -> Collection:
        """Raises UnknownCollectionError."""
        ...

    def deleted_among(self, document_ids: Iterable[str]) -> set[str]:
        """Those of them that are being deleted: what is found of them is not shown any more."""
        ...


class Catalog(DocumentLists, LensesAndJudgements, TunedWeights, IdempotencyRecords, Protocol):
    """Collections, documents and jobs, as people and programs see and change them."""

    def collection(self, name: str) -> Collection:
        """Raises UnknownCollectionError."""
        ...

    def counted_collection(self, name: str) -> CountedCollection:
        """Raises UnknownCollectionError."""
        ...

    def collections(self) -> list[CountedCollection]: ...
    def submit_delete(self, document_id: str, *, delay: timedelta = ...) -> Job:
        """Queues it, due after the delay; no search shows the document from now on. Raises UnknownDocumentError."""
        ...

    def restore_document(self, document_id: str) -> Job:
        """Calls its deletion off, and queues its ingestion, which keeps the points that are still there.

        Raises UnknownDocumentError, ConflictError unless it is being deleted.
        """
        ...

    def document(self, document_id: str) -> Document:
        """Raises UnknownDocumentError."""
        ...

    def documents(
        self, collection: str | None = None, *, state: DocumentState | None = None, limit: int = 100, offset: int = 0
    ) -> list[Document]: ...

    def chunks(self, document_id: str) -> list[Chunk]:
        """Stored chunks in order; their `text` is empty, since texts live in the blob store and the index."""
        ...

    def job(self, job_id: str) -> Job:
        """Raises UnknownJobError."""
        ...

    def jobs(
        self, *, state: JobState | None = None, collection: str | None = None, limit: int = 100, offset: int = 0
    ) -> list[Job]:
        """Newest first."""
        ...

    def job_counts(self, collection: str | None = None) -> dict[JobState, int]: ...
    def retry(self, job_id: str) -> Job: ...
    def retry_dead(self, collection: str | None = None) -> int:
        """Queues the dead jobs that nothing newer has replaced; returns how many."""
        ...

    def cancel(self, job_id: str) -> Job: ...
    def pause(self, collection: str | None = None) -> list[str]:
        """No job of the collection (None: of any that there is now) is claimed; running ones are given back.

        Returns the names. Raises UnknownCollectionError.
        """
        ...

    def resume(self, collection: str | None = None) -> list[str]:
        """Undoes `pause`."""
        ...

    def standby(self, collection: str, role: IndexRole) -> Collection | None:
        """The collection as it is when its index of this role is the active one: its name, and the contract."""
        ...

    def is_alive(self) -> bool: ...
