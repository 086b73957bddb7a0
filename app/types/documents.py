"""Values that cross folder borders: frozen, plain, no framework objects."""

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
from app.types.left_out import left_out
from app.types.quotas import Allowance
from app.types.uris import name_in

MAX_URI_BYTES = 2000  # PostgreSQL indexes no more than 2,704 bytes of a key

MetadataValue = str | int | float | bool
Metadata = Mapping[str, MetadataValue]
T = TypeVar("T")


class DocumentState(StrEnum):
    QUEUED = "queued"
    READY = "ready"
    FAILED = "failed"
    DELETING = "deleting"


class IndexRole(StrEnum):
    """What a physical index beside the active one is there for."""

    BUILDING = "building"
    PREVIOUS = "previous"  # kept for a roll-back


class GarbageKind(StrEnum):
    INDEX = "index"
    FILE = "file"
    LABELS = "labels"  # of the points of an index: `index/field`


class JobKind(StrEnum):
    INGEST = "ingest"
    DELETE = "delete"
    LENS_INDEX = "lens-index"  # `document_id` is then that of a lens index


READ_PROGRESS = 0.05  # of a whole ingestion is reading; embedding takes nearly all of it


class ChunkKind(StrEnum):
    """What a chunk holds, as far as its form tells."""

    PROSE = "prose"
    TABLE = "table"  # of numbers
    REFERENCES = "references"  # a bibliography, or a part of it
    NAVIGATION = "navigation"  # a menu or footer of a web page


class Owned(NamedTuple, Generic[T]):
    """Something of each of these points, in their order, and whose they are."""

    ids: Sequence[str]
    document_ids: Sequence[str]
    found: T


class JobPriority(StrEnum):
    """In the order of claiming: of the jobs that are due, an interactive one comes before every bulk one."""

    INTERACTIVE = "interactive"  # one document, added or deleted by a user
    BULK = "bulk"  # a folder, a sample: many documents at once


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"  # will be tried again at `not_before`
    CANCELLED = "cancelled"
    DEAD = "dead"  # tried as often as allowed, or cannot succeed


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
    """A span of a document as stored. `id` is also the point's id (a UUID), `text_hash` that of what is embedded."""

    id: str
    document_id: str
    ordinal: int
    text: str
    text_hash: str
    start: int
    end: int
    page: int | None = None
    context: str = ""  # where in the document it stands
    kind: ChunkKind = ChunkKind.PROSE
    page_starts: tuple[int, ...] = ()  # characters of its text at which pages after `page` begin; not in the catalog


# What a collection promises about its vectors; each of its physical indexes was made under one such contract.
_OF_VECTORS = ("fingerprint", "dimension", "document_instruction", "document_steps")
CONTRACT = (*_OF_VECTORS, "chunk_tokens", "chunk_overlap", "chunk_context", "chunk_structure", "vectors_per_chunk")


@dataclass(frozen=True, slots=True)
class Collection:
    """`active_index` is the physical collection in Qdrant that the public name points at."""

    name: str
    fingerprint: str
    dimension: int
    document_instruction: str
    document_steps: int
    chunk_tokens: int
    chunk_overlap: int
    active_index: str
    is_paused: bool = False  # its jobs wait until it is resumed
    chunk_context: bool = False  # whether chunks are embedded with title and headings
    chunk_structure: bool = False  # whether chunks keep to sections, pages and rows
    vectors_per_chunk: int = 1  # above 1 a multivector: one for every step, of which searches take the best

    @property
    def has_plain_vectors(self) -> bool:
        """Whether its chunks have vectors of the base model, which follows no instruction."""
        return self.document_steps == 0


@dataclass(frozen=True, slots=True)
class CountedCollection(Collection):
    """With what it holds. Counting reads a row per document: for lists and pages, not for every search and job."""

    document_count: int = 0
    chunk_count: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    collection: str
    uri: str
    title: str
    media_type: str
    content_hash: str  # SHA-256 of the original bytes, its name in the blob store
    byte_count: int
    metadata: Metadata
    state: DocumentState
    error: str | None
    chunk_count: int
    created_at: datetime
    updated_at: datetime
    revision: int = 1  # grows whenever something else is handed in under its uri

    @property
    def name(self) -> str:
        """As the file was called, whatever of it is encoded in the uri."""
        return name_in(self.uri)

    @property
    def left_out(self) -> list[str]:
        """What of it could not be read: counts, places and reasons. Empty where all was."""
        return left_out(self.metadata)


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to add or replace; `uri` is its identity inside the collection."""

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
    """A document on its way in: a file still to be read (`path`), an open one, or what a URL or a row gave (`data`)."""

    name: str  # what a person calls it
    uri: str  # its identity in its collection
    media_type: str
    path: Path | None = None
    data: bytes = b""
    file: BinaryIO | None = None  # one that can seek, as an upload; it is left open
    title: str = ""
    metadata: Metadata = field(default_factory=dict)
    allowance: Allowance | None = None

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Its bytes, which may be far too many to hold at once."""
        if self.path is not None:
            with self.path.open("rb") as file:
                yield file
        elif self.file is not None:
            yield self.file
        else:
            yield BytesIO(self.data)

    def byte_count(self) -> int:
        """As things stand: a file may change until it is stored. Raises OSError."""
        if self.path is not None:
            return self.path.stat().st_size
        return len(self.data) if self.file is None else self.file.seek(0, SEEK_END)


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """Why something did not become a `Source`; `was_named` when a person asked for this very thing."""

    name: str
    reason: str
    was_named: bool = True


@dataclass(frozen=True, slots=True)
class DocumentKey:
    """What tells a stored document from another one."""

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


class FacetValue(NamedTuple):
    """A value of document metadata, spelled as a filter that finds it, and how many documents have it."""

    value: str
    documents: int


class PageStart(NamedTuple):
    """The first passage that begins on a page; `page` counts from 1, `start` in characters of the document's text."""

    page: int
    start: int


@dataclass(frozen=True, slots=True)
class StoredBytes:
    content_hash: str
    byte_count: int


@dataclass(frozen=True, slots=True)
class StoredFile:
    """What the store should hold of a document; `is_read`: its text, too."""

    document_id: str
    uri: str
    content_hash: str
    byte_count: int
    is_read: bool


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """All that the catalog keeps of a document. `given_*` was handed in; by it a repetition is known."""

    document: Document
    given_title: str
    given_metadata: Metadata


@dataclass(frozen=True, slots=True)
class GarbageItem:
    """Something outside of the catalog that it needs no more from `due_at` on: an index, or a stored file."""

    kind: GarbageKind
    name: str
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Point:
    """Where it is a multivector, `vector` is that of the last step, which stands for it wherever one must do."""

    id: str
    vector: Sequence[float]
    payload: Mapping[str, object]
    earlier_steps: Sequence[Sequence[float]] = ()

    @classmethod
    def of_steps(cls, id: str, steps: Sequence[Sequence[float]], payload: Mapping[str, object]) -> Self:
        """Of the vectors of all steps, which may be one."""
        *earlier, last = steps
        return cls(id, last, payload, earlier)

    @property
    def steps(self) -> list[Sequence[float]]:
        return [*self.earlier_steps, self.vector]


@dataclass(frozen=True, slots=True)
class PointDamage:
    """What is wrong with points that were looked at. `ids` are those it is wrong with; none: with the index itself."""

    reason: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredPoint:
    id: str
    score: float
    payload: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """How the engine stores an index, and what it does about it."""

    points: int
    indexed_vectors: int  # dense ones in a graph, and all sparse ones
    segments: int
    activity: str | None = None  # while it is being optimised
    awaits_optimizing: bool = False  # until it is asked to (again), as after a crash
    fault: str | None = None  # why it could not be optimised


@dataclass(frozen=True, slots=True)
class Lens:
    """A saved way of looking: instructions under a name that a person gave."""

    name: str
    query_instruction: str
    document_instruction: str | None = None  # for documents embedded for it; None: as the collection has
    note: str = ""
    values: tuple[str, ...] = ()  # that it tells apart, as `parse_values` reads them


@dataclass(frozen=True, slots=True)
class Judgement:
    """How well a document answers a query under an instruction, as judged by one person."""

    document_id: str
    query: str
    instruction: str
    grade: int  # 0: not at all, to 3: this is it
    judged_by: str
    judged_at: datetime


def utc_now() -> datetime:
    return datetime.now(UTC)


def require_text(text: str, *, name: str) -> str:
    """`text` itself. Raises InputError on NUL and on lone surrogates, which neither SQL nor UTF-8 can hold."""
    if "\x00" in text:
        raise InputError(f"The {name} holds a NUL character at position {text.index(chr(0))}; remove it.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise InputError(
            f"The {name} is not valid Unicode at position {error.start}: lone surrogate U+{code:04X}. Send UTF-8."
        ) from None
    return text


def require_short_uri(uri: str) -> str:
    """`uri` itself. Raises InputError."""
    if len(uri.encode("utf-8", "backslashreplace")) > MAX_URI_BYTES:
        raise InputError(f"The URI {uri[:80]!r}… is longer than {MAX_URI_BYTES} bytes: shorten it.")
    return uri
