"""Collections, documents, jobs, chunks, points and lenses (immutable), and checks of texts and URIs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from io import SEEK_END, BytesIO
from pathlib import Path
from typing import BinaryIO, Generic, NamedTuple, Self, TypeVar

from app.errors import InputError
from app.types.files_below import open_below
from app.types.left_out import left_out
from app.types.quotas import Allowance
from app.types.uris import name_in

MAX_URI_BYTES = 2000  # PostgreSQL indexes no more than 2,704 bytes of a key
MAX_TITLE_CHARACTERS = 1_000
MAX_KEY_CHARACTERS = 200  # of metadata
MAX_METADATA_CHARACTERS = 20_000  # of all keys and values: the index stores them with every passage

MetadataValue = str | int | float | bool
Metadata = Mapping[str, MetadataValue]
T = TypeVar("T")


class DocumentState(StrEnum):
    QUEUED = "queued"
    READY = "ready"
    FAILED = "failed"
    DELETING = "deleting"


class IndexRole(StrEnum):
    """Purpose of a physical index that is not the active one."""

    BUILDING = "building"
    PREVIOUS = "previous"  # kept for a rollback


class GarbageKind(StrEnum):
    INDEX = "index"
    FILE = "file"
    LABELS = "labels"  # on the points of an index, named `index/field`


class JobKind(StrEnum):
    INGEST = "ingest"
    DELETE = "delete"
    LENS_INDEX = "lens-index"  # `document_id` is then the id of a lens index


READ_PROGRESS = 0.05  # progress of an ingestion once the file is parsed; embedding takes nearly all of the time


class ChunkKind(StrEnum):
    """Kind of a chunk's text, detected from its layout."""

    PROSE = "prose"
    TABLE = "table"  # mostly numbers
    REFERENCES = "references"  # a bibliography, or a part of one
    NAVIGATION = "navigation"  # a menu or footer of a web page


class Owned(NamedTuple, Generic[T]):
    """Something found for each of these points, with the points' document ids; all in the same order."""

    ids: Sequence[str]
    document_ids: Sequence[str]
    found: T


class JobPriority(StrEnum):
    """Priority of a job, highest first: a due job is claimed before every job of a lower priority."""

    INTERACTIVE = "interactive"  # one document, added or deleted by a user
    BULK = "bulk"  # a folder: many documents at once
    BACKGROUND = "background"  # nobody waits for it: the sample library

    def at_least(self, other: JobPriority) -> JobPriority:
        """The higher of the two priorities."""
        order = list(JobPriority)
        return min(self, other, key=order.index)


MAX_ATTEMPTS = 5  # of a job, unless a retry cannot help
MAX_PAUSES = 1440  # of a job, about a day of one-minute pauses


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"  # will be retried at `not_before`
    CANCELLED = "cancelled"
    DEAD = "dead"  # out of attempts, or cannot succeed


@dataclass(frozen=True, slots=True)
class TextWindow:
    """Characters [start, start + len(text)) of a text of `total` characters."""

    text: str
    start: int
    total: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stored span of a document. `id` is also the point's id (a UUID); `text_hash` is that of the embedded text."""

    id: str
    document_id: str
    ordinal: int
    text: str
    text_hash: str
    start: int
    end: int
    page: int | None = None
    context: str = ""  # title and headings above it
    kind: ChunkKind = ChunkKind.PROSE
    page_starts: tuple[int, ...] = ()  # characters of its text at which pages after `page` begin; not in the catalog


# Fields that decide a collection's vectors. Each physical index was built under one such contract.
_OF_VECTORS = ("fingerprint", "dimension", "document_instruction", "document_steps")
CONTRACT = (*_OF_VECTORS, "chunk_tokens", "chunk_overlap", "chunk_context", "chunk_structure", "vectors_per_chunk")


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection with its contract. `active_index` is the Qdrant collection that it currently uses."""

    name: str
    fingerprint: str
    dimension: int
    document_instruction: str
    document_steps: int
    chunk_tokens: int
    chunk_overlap: int
    active_index: str
    is_paused: bool = False  # jobs wait until it is resumed
    chunk_context: bool = False  # whether chunks are embedded with title and headings
    chunk_structure: bool = False  # whether chunks end at borders of sections, pages and rows
    vectors_per_chunk: int = 1  # above 1: a multivector with one vector per step, of which a search uses the best

    @property
    def has_plain_vectors(self) -> bool:
        """Whether chunks are embedded by the base model, which ignores instructions."""
        return self.document_steps == 0


@dataclass(frozen=True, slots=True)
class CountedCollection(Collection):
    """A collection with its counts. Counting reads a row per document, so it is for lists and pages, not for searches
    and jobs."""

    document_count: int = 0
    chunk_count: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    collection: str
    uri: str
    title: str
    media_type: str
    content_hash: str  # SHA-256 of the original bytes, which are stored under this name
    byte_count: int
    metadata: Metadata
    state: DocumentState
    error: str | None
    chunk_count: int
    created_at: datetime
    updated_at: datetime
    revision: int = 1  # increases whenever other content is added under the same uri

    @property
    def name(self) -> str:
        """Name of the file, decoded from the uri."""
        return name_in(self.uri)

    @property
    def left_out(self) -> list[str]:
        """Lines about unreadable parts: counts, places and reasons. Empty if everything was read."""
        return left_out(self.metadata)


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to add or replace. `uri` identifies it within the collection."""

    uri: str
    title: str
    media_type: str
    content_hash: str
    byte_count: int
    metadata: Metadata = field(default_factory=dict)
    moved_from: str | None = None  # id of the document that had this content under another uri
    allowance: Allowance | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A document to be added, by its content: a `path`, an open `file`, or `data` from a URL or a table row.

    With `root`, the file must be below that folder when it is opened.
    """

    name: str  # for people
    uri: str  # identifies the document within its collection
    media_type: str
    path: Path | None = None
    data: bytes = b""
    file: BinaryIO | None = None  # seekable, such as an upload; the receiver does not close it
    title: str = ""
    metadata: Metadata = field(default_factory=dict)
    allowance: Allowance | None = None
    root: Path | None = None

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Opens the content as a stream: it may be too large for memory."""
        if self.path is not None:
            with open_below(self.path, self.root) if self.root else self.path.open("rb") as file:
                yield file
        elif self.file is not None:
            yield self.file
        else:
            yield BytesIO(self.data)

    def byte_count(self) -> int:
        """Current size; a file may still change until it is stored. Raises OSError."""
        if self.path is not None:
            return self.path.stat().st_size
        return len(self.data) if self.file is None else self.file.seek(0, SEEK_END)


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """Why something did not become a `Source`. `was_named`: the user named it, instead of a folder that contains it."""

    name: str
    reason: str
    was_named: bool = True


@dataclass(frozen=True, slots=True)
class DocumentKey:
    """Identifies a stored document and its content."""

    id: str
    uri: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    kind: JobKind
    collection: str
    document_id: str
    state: JobState
    attempts: int
    progress: float  # 0 to 1
    error: str | None
    lease_owner: str | None
    lease_until: datetime | None
    fencing_token: int
    not_before: datetime
    created_at: datetime
    finished_at: datetime | None
    priority: JobPriority = JobPriority.BULK
    pauses: int = 0  # times it waited for an unavailable part
    may_succeed: bool = False  # the last attempt failed by a limit of the server: ServerLimitError

    @property
    def can_succeed_again(self) -> bool:
        """Whether another attempt at the same file may succeed."""
        return self.may_succeed or not self.is_refused

    @property
    def is_refused(self) -> bool:
        """Whether a refusal ended the job, before its attempts or pauses were used up."""
        return self.state is JobState.DEAD and self.attempts < MAX_ATTEMPTS and self.pauses < MAX_PAUSES


class FacetValue(NamedTuple):
    """A metadata value, written as the filter that matches it, and the number of documents with it."""

    value: str
    documents: int


class PageStart(NamedTuple):
    """Start of the first passage that begins on a page. `page` counts from 1, `start` in characters of the text."""

    page: int
    start: int


@dataclass(frozen=True, slots=True)
class StoredBytes:
    content_hash: str
    byte_count: int


@dataclass(frozen=True, slots=True)
class StoredFile:
    """What the blob store should contain for a document: its original, and if `is_read`, also its text."""

    document_id: str
    uri: str
    content_hash: str
    byte_count: int
    is_read: bool


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """A document's complete catalog row. `given_*` are the caller's values, by which a repeated request is detected."""

    document: Document
    given_title: str
    given_metadata: Metadata


@dataclass(frozen=True, slots=True)
class GarbageItem:
    """An index, a stored file or labels that are no longer needed from `due_at` on."""

    kind: GarbageKind
    name: str
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the index. For a multivector, `vector` is the last step's, used wherever a single vector is needed."""

    id: str
    vector: Sequence[float]
    payload: Mapping[str, object]
    earlier_steps: Sequence[Sequence[float]] = ()

    @classmethod
    def of_steps(cls, id: str, steps: Sequence[Sequence[float]], payload: Mapping[str, object]) -> Self:
        """Makes a point of the vectors of one or more steps, in order."""
        *earlier, last = steps
        return cls(id, last, payload, earlier)

    @property
    def steps(self) -> list[Sequence[float]]:
        return [*self.earlier_steps, self.vector]


@dataclass(frozen=True, slots=True)
class PointDamage:
    """Damage found by a check. `ids`: the damaged points; empty if the index as a whole is damaged."""

    reason: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredPoint:
    id: str
    score: float
    payload: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """Storage state of an index in the engine."""

    points: int
    indexed_vectors: int  # dense vectors in a graph, and all sparse vectors
    segments: int
    activity: str | None = None  # current step of an optimisation
    awaits_optimizing: bool = False  # the engine waits for a request to optimise, for instance after a crash
    fault: str | None = None  # why an optimisation failed


@dataclass(frozen=True, slots=True)
class Lens:
    """A named instruction, with optional values by which it groups texts."""

    name: str
    query_instruction: str
    document_instruction: str | None = None  # for documents embedded for this lens; None: the collection's
    note: str = ""
    values: tuple[str, ...] = ()  # in the syntax of `parse_values`


@dataclass(frozen=True, slots=True)
class Judgement:
    """One person's grade of how well a document answers a query under an instruction."""

    document_id: str
    query: str
    instruction: str
    grade: int  # 0 (not relevant) to 3 (perfect)
    judged_by: str
    judged_at: datetime


def utc_now() -> datetime:
    return datetime.now(UTC)


def require_text(text: str, *, name: str) -> str:
    """Returns `text` unchanged. Raises InputError for NUL, which SQL cannot store, and for lone surrogates, which UTF-8
    cannot encode."""
    if "\x00" in text:
        raise InputError(f"The {name} contains a NUL character at position {text.index(chr(0))}; remove it.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise InputError(
            f"The {name} is not valid Unicode at position {error.start}: lone surrogate U+{code:04X}. Send UTF-8."
        ) from None
    return text


def require_short_uri(uri: str) -> str:
    """Returns `uri` unchanged. Raises InputError if it is longer than MAX_URI_BYTES."""
    if len(uri.encode("utf-8", "backslashreplace")) > MAX_URI_BYTES:
        raise InputError(f"The URI {uri[:80]!r}… is longer than {MAX_URI_BYTES} bytes: shorten it.")
    return uri
