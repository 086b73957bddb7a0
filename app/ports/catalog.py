"""Port: the catalog as interfaces use it. The guard can authorize each method."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from app.types.documents import (
    Chunk,
    Collection,
    CountedCollection,
    Document,
    DocumentState,
    FacetValue,
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


class LensesAndJudgements(Protocol):
    """Lenses, and judgements of documents. A part of `Catalog`."""

    def lenses(self) -> list[Lens]:
        """Sorted by name."""
        ...

    def lens(self, name: str) -> Lens:
        """Raises UnknownLensError."""
        ...

    def save_lens(self, lens: Lens, *, indexed_in: Container[str] | None = None) -> None:
        """Replaces a lens of the same name. Its indexes get the new values, but only in these collections (None: in
        all); those in others become outdated."""
        ...

    def delete_lens(self, name: str, *, indexed_in: Container[str] | None = None) -> None:
        """Raises UnknownLensError."""
        ...

    def save_judgement(self, judgement: Judgement) -> Judgement:
        """Replaces this person's previous judgement of the same document, query and instruction. Returns the saved one.

        Raises UnknownDocumentError, and ConflictError at the maximum number of judgements per person. Deleting a
        document deletes its judgements.
        """
        ...

    def delete_judgement(self, judgement: Judgement) -> bool:
        """False if this person had no judgement of this document, query and instruction."""
        ...

    def judgements(self, collection: str, *, limit: int, offset: int = 0) -> list[Judgement]:
        """In the order of `judgement_pages`."""
        ...

    def judgement_pages(self, collection: str) -> Iterator[list[Judgement]]:
        """All judgements of the collection, page by page, grouped by document."""
        ...

    def judgement_sources(self, collection: str) -> list[JudgementSource]:
        """Sorted by name."""
        ...


class TunedWeights(Protocol):
    """Tuned leg weights per collection."""

    def applied(self, collection: str) -> Mapping[Leg, float] | None:
        """The applied weights; None means the defaults, also for an unknown collection."""
        ...


class IdempotencyRecords(Protocol):
    """Stored answers by the callers' idempotency keys, so that a repeated request runs once."""

    def begin(self, caller: str, key: str, *, digest: str, lease: timedelta) -> IdempotencyRecord | None:
        """None: run the request now, within the lease; the key is new, or its process died.

        Otherwise the record of the key: an answer, or, without a status, a request in progress.
        """
        ...

    def keep(self, caller: str, key: str, *, status: int, body: str, keep: timedelta) -> None: ...
    def forget(self, caller: str, key: str) -> None:
        """After a failed request: the next one with this key runs again."""
        ...


class LensIndexRecords(Protocol):
    def of_collection(self, collection: str, *, with_jobs: bool = True) -> list[LensIndex]:
        """Sorted by lens; empty for an unknown collection. Leaving out jobs halves the work."""
        ...

    def queue_all(self, collection: str) -> None:
        """Queue a job for each lens index of the collection, to add missing labels."""
        ...


class SearchedCatalog(Protocol):
    """The catalog as searches use it."""

    @property
    def lens_indexes(self) -> LensIndexRecords: ...
    @property
    def weights(self) -> TunedWeights: ...
    def uncounted_collections(self) -> list[Collection]:
        """Sorted by name."""
        ...

    def collection(self, name: str) -> Collection:
        """Raises UnknownCollectionError."""
        ...

    def deleted_among(self, document_ids: Iterable[str]) -> set[str]:
        """The given documents that are being deleted; searches hide them."""
        ...


class Catalog(LensesAndJudgements, Protocol):
    """Collections, documents and jobs, as interfaces see and change them."""

    def collection(self, name: str) -> Collection:
        """Raises UnknownCollectionError."""
        ...

    def created_at(self, name: str) -> datetime:
        """When the collection was created: a later one of the same name is another one. Raises
        UnknownCollectionError."""
        ...

    def counted_collection(self, name: str) -> CountedCollection:
        """Raises UnknownCollectionError."""
        ...

    def collections(self) -> list[CountedCollection]: ...
    def submit_delete(self, document_id: str, *, delay: timedelta = ...) -> Job:
        """Queue the deletion, due after the delay; searches hide the document immediately. Raises
        UnknownDocumentError.
        """
        ...

    def restore_document(self, document_id: str) -> Job:
        """Cancel the deletion and queue ingestion, which reuses the remaining points.

        Raises UnknownDocumentError, and ConflictError unless the document is being deleted.
        """
        ...

    def document(self, document_id: str) -> Document:
        """Raises UnknownDocumentError."""
        ...

    def documents(
        self, collection: str | None = None, *, state: DocumentState | None = None, limit: int = 100, offset: int = 0
    ) -> list[Document]: ...

    def chunks(self, document_id: str) -> list[Chunk]:
        """Stored chunks in order, with empty `text`: texts are in the blob store and the index."""
        ...

    def find_documents(
        self, collection: str, *, text: str = "", state: DocumentState | None = None, limit: int = 100, offset: int = 0
    ) -> list[Document]:
        """Newest first. `text`: case-insensitive substring of the title or URI."""
        ...

    def count_documents(self, collection: str, *, text: str = "") -> dict[DocumentState, int]:
        """Number of documents that `find_documents` finds, for every state."""
        ...

    def latest_jobs(self, document_ids: Sequence[str]) -> dict[str, Job]:
        """Keyed by document id."""
        ...

    def find_chunk(self, document_id: str, chunk_id: str) -> Chunk | None:
        """A chunk of the active index; None if the document does not have it (any more)."""
        ...

    def page_starts(self, document_id: str, *, start: int, end: int) -> list[PageStart]:
        """Start of each page whose first chunk begins at characters [start, end); empty for documents without pages."""
        ...

    def facets(
        self, collection: str, filters: Mapping[str, str] | None = None, *, without: Iterable[str] = ()
    ) -> dict[str, list[FacetValue]]:
        """Metadata keys and values of searchable documents with document counts, most frequent first.

        At most 12 keys with 20 values each; keys of `without` only if `filters` has them. `filters` work as in a
        search, but the counts of a key ignore its own filter, to show what another value would give. Raises
        UnknownCollectionError and FilterError.
        """
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
        """Queue dead jobs again, unless a newer job replaced them; returns their number."""
        ...

    def cancel(self, job_id: str) -> Job: ...
    def pause(self, collection: str | None = None) -> list[str]:
        """Stop claims of the collection's jobs (None: of all current collections); running jobs return to the queue.

        Returns the names of the paused collections. Raises UnknownCollectionError.
        """
        ...

    def resume(self, collection: str | None = None) -> list[str]:
        """Undoes `pause`."""
        ...

    def is_alive(self) -> bool: ...
