"""What the core needs of the rest of the application, as protocols. Implementations are joined in `app/wiring.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, Protocol

from app.ports.access import AccessLedger
from app.ports.catalog import DocumentLists, IdempotencyRecords, IndexLedger, JobQueue, LensesAndJudgements, ShardLedger
from app.types.documents import (
    Chunk,
    Collection,
    CountedCollection,
    Document,
    DocumentKey,
    DocumentState,
    ExtractedText,
    Findings,
    IndexStatus,
    Job,
    JobPriority,
    JobReport,
    JobState,
    Metadata,
    NewDocument,
    Point,
    ScoredPoint,
    Span,
    StoredBytes,
    TextPart,
    TextWindow,
)
from app.types.search import QueryEmbedding


class Embedder(Protocol):
    """Turns texts into L2-normalised vectors of `dimension` numbers. Safe to call from several threads."""

    @property
    def model_name(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    @property
    def default_document_instruction(self) -> str: ...
    @property
    def default_document_steps(self) -> int: ...
    @property
    def default_query_steps(self) -> int: ...
    @property
    def max_steps(self) -> int: ...

    def embed_query(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> QueryEmbedding:
        """Raises InputError (from app.errors) when the text, instruction, steps or bias cannot be used."""
        ...

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]: ...


class SharedEmbedder(Embedder, Protocol):
    def for_ingestion(self, is_leaving: Callable[[], bool]) -> Embedder:
        """The same model for documents that nobody waits for: queries go before them, between two batches.

        `is_leaving` is asked in the thread that waits; once it says yes, UnavailableError ends the wait.
        """
        ...


class TokenCounter(Protocol):
    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Character [start, end) of every model token of `text`, without special tokens, in order."""
        ...


class VectorIndex(Protocol):
    """Physical collections of points. Every method raises VectorIndexUnavailableError when the engine is away.

    Payload of a point follows LangChain's Qdrant convention: `page_content` (the chunk's text) and `metadata`, which
    holds the document's metadata plus `_collection_name`-free keys `document_id, title, uri, ordinal, start, end,
    page, text_hash`.
    """

    def create(self, index: str, *, dimension: int) -> None:
        """Makes an empty physical collection (cosine, and words). No error when it exists with the same dimension."""
        ...

    def has_sparse(self, index: str) -> bool:
        """Whether `search_sparse` and `search_both` can be asked: indexes of earlier releases keep no words."""
        ...

    def drop(self, index: str) -> None: ...
    def exists(self, index: str) -> bool: ...
    def point_to(self, alias: str, index: str) -> None:
        """Makes the public name `alias` mean `index`, in one step."""
        ...

    def upsert(self, index: str, points: Sequence[Point]) -> None:
        """Waits until the points are searchable. NaN, infinite and zero vectors raise ValueError first.

        The words of a chunk are those of its `page_content`, which goes with its id: `set_payloads` leaves them.
        """
        ...

    def set_payloads(self, index: str, payloads: Mapping[str, Mapping[str, object]]) -> None:
        """Replaces the payloads of these points; their vectors stay. Ids that are not there are ignored."""
        ...

    def delete_points(self, index: str, ids: Sequence[str]) -> None: ...
    def delete_document(self, index: str, document_id: str) -> None: ...
    def search(
        self, index: str, vector: Sequence[float], *, limit: int, filters: Mapping[str, str] | None = None
    ) -> list[ScoredPoint]:
        """Nearest by cosine; ties broken by id. `filters` compare document metadata by equality.

        Scores are exact. Nothing is missed unless the index is large and was optimised: docs/search-at-scale.md.
        """
        ...

    def search_sparse(
        self, index: str, text: str, *, limit: int, filters: Mapping[str, str] | None = None
    ) -> list[ScoredPoint]:
        """Best by BM25 of those that share a word with `text`; ties broken by id. Needs `has_sparse`."""
        ...

    def search_both(
        self, index: str, vector: Sequence[float], text: str, *, limit: int, filters: Mapping[str, str] | None = None
    ) -> tuple[list[ScoredPoint], list[ScoredPoint]]:
        """What `search` and what `search_sparse` find, `limit` of each, in one request. Needs `has_sparse`."""
        ...

    def count(self, index: str, *, document_id: str | None = None) -> int: ...
    def point_ids(self, index: str) -> Iterator[str]: ...
    def points_of(self, index: str, document_ids: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Ids of the points of these documents, each after the id of its document."""
        ...

    def retrieve(self, index: str, ids: Sequence[str]) -> list[Point]:
        """Those of these points that are there, with vectors and payloads, in any order."""
        ...

    def present_ids(self, index: str, ids: Sequence[str]) -> set[str]: ...
    def scan(self, index: str) -> Iterator[list[Point]]:
        """All points, page by page; of their payloads only `metadata`, and no vectors."""
        ...

    def indexes(self) -> list[str]:
        """All physical collections, those of others included."""
        ...

    def aliases(self) -> dict[str, str]:
        """Public name → physical collection."""
        ...

    def optimize(self, index: str) -> None:
        """Asks the engine to merge, index and clean what it stores, and returns: `condition` tells how it goes.

        Meanwhile searches and writes are served as ever. Asking again while it is at work changes nothing.
        """
        ...

    def condition(self, index: str) -> IndexStatus:
        """How the engine stores an index, and what its optimiser is at."""
        ...

    def is_alive(self) -> bool: ...


class JobListener(Protocol):
    def wait(self, timeout_s: float) -> bool:
        """Until a job may have become due (True), or the time is over. Raises CatalogUnavailableError."""
        ...


class Catalog(
    IndexLedger, ShardLedger, JobQueue, DocumentLists, LensesAndJudgements, IdempotencyRecords, AccessLedger, Protocol
):
    """The one source of truth for state. A document row and its job commit in one transaction."""

    def create_collection(self, collection: Collection) -> Collection:
        """Returns the existing one when the name is taken by an identical contract, else raises ConflictError."""
        ...

    def collection(self, name: str) -> Collection:
        """Raises UnknownCollectionError."""
        ...

    def counted_collection(self, name: str) -> CountedCollection:
        """Raises UnknownCollectionError."""
        ...

    def collections(self) -> list[CountedCollection]: ...
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

    def submit_delete(self, document_id: str) -> Job: ...
    def document(self, document_id: str) -> Document:
        """Raises UnknownDocumentError."""
        ...

    def documents(
        self, collection: str | None = None, *, state: DocumentState | None = None, limit: int = 100, offset: int = 0
    ) -> list[Document]: ...

    def document_keys(self, collection: str, *, uri_prefix: str) -> list[DocumentKey]:
        """Of all documents whose uri begins so, in the order of uris; none when there is no such collection."""
        ...

    def chunks(self, document_id: str) -> list[Chunk]:
        """Stored chunks in order; their `text` is empty, since texts live in the blob store and the index."""
        ...

    def job(self, job_id: str) -> Job:
        """Raises UnknownJobError."""
        ...

    def job_reports(self, job_ids: Sequence[str]) -> dict[str, JobReport]:
        """By id; jobs that were removed with their collection are left out."""
        ...

    def jobs(
        self, *, state: JobState | None = None, collection: str | None = None, limit: int = 100, offset: int = 0
    ) -> list[Job]:
        """Newest first."""
        ...

    def job_counts(self, collection: str | None = None) -> dict[JobState, int]: ...

    def claim(self, owner: str, *, lease: timedelta) -> Job | None:
        """Takes a job whose lease ended; else one that is due, by priority, the collections taking turns.

        Within a priority, the collection with the fewest running jobs comes first, then the one whose last claim is
        oldest; within a collection, the job that has been due for longest. Paused collections are passed over.
        """
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

    def is_alive(self) -> bool: ...


class BlobBatch(Protocol):
    def put_file(self, file: BinaryIO) -> StoredBytes:
        """Raises OSError when `file` cannot be read, FilesUnavailableError when it cannot be kept."""
        ...


class BlobStore(Protocol):
    """Original bytes, named by their SHA-256, and the text that was extracted from them."""

    def put(self, data: bytes) -> str: ...
    def put_file(self, file: BinaryIO) -> StoredBytes:
        """From its beginning, piece by piece. The hash is of what was stored, even if the file changes meanwhile."""
        ...

    def batch(self) -> AbstractContextManager[BlobBatch]:
        """What is put into it is durable, or in the end absent, when the block ends: with few syncs for many files."""
        ...

    def has(self, content_hash: str) -> bool: ...
    def put_parts(self, content_hash: str, parts: Iterable[bytes]) -> None:
        """For bytes too many to hold at once, whose hash the caller has checked."""
        ...

    def get(self, content_hash: str) -> bytes:
        """Raises NotFoundError."""
        ...

    def put_text(self, content_hash: str, parts: Iterable[str]) -> None: ...
    def get_text(self, content_hash: str) -> str:
        """Raises NotFoundError."""
        ...

    def text_window(self, content_hash: str, start: int, end: int) -> TextWindow:
        """Those of the characters [start, end) that there are, without holding the whole text. Raises NotFoundError."""
        ...

    def path(self, content_hash: str) -> Path: ...
    def locate(self, content_hash: str) -> Path:
        """Where the bytes lie at this moment, which `discard` may change. Raises NotFoundError."""
        ...

    def discard(self, content_hash: str, *, is_needed: Callable[[], bool]) -> None:
        """Removes bytes and text unless they are needed, which is asked after they were put aside.

        Whoever adds a document looks after its row is there whether the bytes still are; so none can get lost.
        """
        ...

    def hashes(self) -> Iterator[str]:
        """Of everything that is kept."""
        ...


class TextSink(Protocol):
    """Takes the text of a document, part by part in order."""

    def write(self, part: TextPart) -> None: ...
    def clear(self) -> None:
        """Forgets all parts: the reader starts over."""
        ...


class Reader(Protocol):
    """Extracts text. Raises DocumentError with a reason that a person can act on, or FileNotFoundError.

    What was written into the sink is of no use then.
    """

    def __call__(self, path: Path, *, uri: str, media_type: str, into: TextSink) -> Findings: ...


class Splitter(Protocol):
    def __call__(self, document: ExtractedText) -> list[Span]: ...
