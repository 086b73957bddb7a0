"""Ports: models, vector indexes and stored files; `app.wiring` provides the implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

import numpy as np

from app.errors import EngineFaultError, VectorIndexUnavailableError
from app.types.documents import (
    Collection,
    IndexStatus,
    Job,
    Owned,
    Point,
    PointDamage,
    ScoredPoint,
    StoredBytes,
    TextWindow,
)
from app.types.lens_indexes import Label
from app.types.texts import TextLayout
from embedder.model_info import ModelInfo
from embedder.refinement import Refinement


class Embedder(Protocol):
    """Turns texts into L2-normalised vectors of `info.dimension` numbers. Thread-safe."""

    @property
    def info(self) -> ModelInfo: ...
    def embed_query(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> Refinement:
        """Raises InputError (from app.errors) for an unusable text, instruction, steps or bias."""
        ...

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]: ...
    def embed_steps(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[list[float]]]:
        """For each document, the vectors after 1 to `steps` steps; the last one equals `embed_documents`."""
        ...


class SharedEmbedder(Embedder, Protocol):
    def for_ingestion(self, is_leaving: Callable[[], bool]) -> Embedder:
        """The same model for ingestion: between two batches, queries go first.

        Blocking calls poll `is_leaving` in the waiting thread; once it returns True, they raise UnavailableError.
        """
        ...


class TextVectors(NamedTuple):
    """Texts and vectors (n, D) of points, in the same order."""

    texts: Sequence[str]
    vectors: np.ndarray


class Labels(Protocol):
    """Labels of points: a mapping under a payload key, with a number `value` that searches and counts can filter by,
    such as a chunk's value under a lens. A part of `VectorIndex`.
    """

    def add_labels(self, index: str, field: str) -> None:
        """Call before setting the first label. No error if it exists already."""
        ...

    def set_labels(self, index: str, field: str, labels: Mapping[str, Mapping[str, object]]) -> None:
        """Keyed by point id; ignores missing ids. The rest of the payload is unchanged."""
        ...

    def drop_labels(self, index: str, field: str) -> None:
        """Removes the label from all points; no error if there are none."""
        ...

    def unlabelled(self, index: str, field: str) -> Iterator[tuple[list[str], TextVectors]]:
        """Ids, texts and vectors of chunks without this label, page by page. Skips chunks that get the label
        meanwhile.
        """
        ...

    def count_unlabelled(self, index: str, field: str) -> int: ...
    def labelled(self, index: str, field: str, *, value: int | None = None) -> Iterator[list[Point]]:
        """Points with this label, or with this `value` of it, page by page, with payloads but without vectors."""
        ...


class SearchedIndex(Protocol):
    """Search queries on physical collections of points. Errors as in `VectorIndex`."""

    def has_sparse(self, index: str) -> bool:
        """True if the index supports `search_sparse` and `search_legs`; indexes of earlier releases have no sparse
        vectors.
        """
        ...

    def search(
        self,
        index: str,
        vector: Sequence[float],
        *,
        limit: int,
        filters: Mapping[str, str] | None = None,
        label: Label | None = None,
        with_payload: bool = True,
    ) -> list[ScoredPoint]:
        """Nearest points by cosine (multivectors: by their most similar vector, max-sim); ties broken by id. `filters`
        compare document metadata by equality; with `label`, only points with that label match.

        Scores are exact. The search finds every nearest point, unless the index is large and optimised: see
        docs/search-at-scale.md.
        """
        ...

    def search_beside(
        self,
        index: str,
        vector: Sequence[float],
        *,
        limit: int,
        labelled: tuple[Label, int],
        filters: Mapping[str, str] | None = None,
        label: Label | None = None,
        with_payload: bool = True,
    ) -> tuple[list[ScoredPoint], list[ScoredPoint]]:
        """Runs `search` and, in the same request, a second search limited to one label, with its own limit."""
        ...

    def search_sparse(
        self,
        index: str,
        text: str,
        *,
        limit: int,
        filters: Mapping[str, str] | None = None,
        label: Label | None = None,
    ) -> list[ScoredPoint]:
        """Best by BM25 among points that share a word with `text`; ties broken by id. Needs `has_sparse`."""
        ...

    def search_legs(
        self,
        index: str,
        vectors: Sequence[Sequence[float]],
        text: str,
        *,
        limit: int,
        filters: Mapping[str, str] | None = None,
        label: Label | None = None,
        with_payload: bool = True,
    ) -> tuple[list[list[ScoredPoint]], list[ScoredPoint]]:
        """Runs `search` for each vector and `search_sparse`, `limit` hits each, in one request. An empty `text`
        skips the word search; otherwise it needs `has_sparse`.
        """
        ...

    def retrieve(self, index: str, ids: Sequence[str]) -> list[Point]:
        """The given points that exist, with vectors and payloads, in any order."""
        ...

    def payloads(self, index: str, ids: Sequence[str]) -> dict[str, dict[str, object]]:
        """Payloads of the given points that exist, by id."""
        ...

    def vectors(self, index: str, ids: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """Ids and vectors (n, D) of the given points that exist, in any order; of a multivector the last vector."""
        ...

    def owned_vectors(self, index: str, ids: Sequence[str]) -> Owned[TextVectors]:
        """Texts and vectors of the given points that are chunks of documents."""
        ...

    def owned_labels(self, index: str, field: str, ids: Sequence[str]) -> Owned[Sequence[Mapping[str, object] | None]]:
        """Labels of the given points that are chunks of documents; None for unlabelled ones."""
        ...

    def all_labels(self, index: str, field: str) -> Iterator[Mapping[str, Mapping[str, object]]]:
        """The labels of all labelled points by id, some hundreds per batch."""
        ...

    def label_counts(self, index: str, field: str, *, filters: Mapping[str, str] | None = None) -> dict[int, int]:
        """Number of points per label `value`."""
        ...

    def count(self, index: str) -> int: ...


class VectorIndex(Labels, SearchedIndex, Protocol):
    """Physical collections of points. Every method raises VectorIndexUnavailableError while the engine is unavailable.

    Payloads follow LangChain's Qdrant convention: `page_content` (the chunk's text) and `metadata`, which holds the
    document's metadata plus the keys `document_id, title, uri, ordinal, start, end, page, text_hash`. Labels are stored
    next to these two.
    """

    def create(self, index: str, *, dimension: int, vectors_per_point: int = 1) -> None:
        """Create an empty physical collection with dense (cosine) and sparse vectors; dense ones are multivectors if
        `vectors_per_point` exceeds 1. No error if it exists with the same vectors.
        """
        ...

    def drop(self, index: str) -> None: ...
    def exists(self, index: str) -> bool: ...
    def point_to(self, alias: str, index: str) -> None:
        """Atomically point the public name `alias` to `index`."""
        ...

    def upsert(self, index: str, points: Sequence[Point]) -> None:
        """Returns once the points are searchable. Raises ValueError, before writing, for NaN, infinite or zero vectors,
        and for a number of vectors per point that does not fit the index.

        The sparse vector is computed from `page_content` and belongs to the point's id: `set_payloads` leaves it
        unchanged.
        """
        ...

    def set_payloads(self, index: str, payloads: Mapping[str, Mapping[str, object]]) -> None:
        """Replace text and metadata of these points; vectors and labels are kept. Ignores missing ids."""
        ...

    def delete_points(self, index: str, ids: Sequence[str]) -> None: ...
    def delete_document(self, index: str, document_id: str) -> None: ...
    def count(self, index: str, *, document_id: str | None = None) -> int: ...
    def point_ids(self, index: str) -> Iterator[str]: ...
    def points_of(self, index: str, document_ids: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Pairs of document id and point id for these documents."""
        ...

    def present_ids(self, index: str, ids: Sequence[str]) -> set[str]: ...
    def scan(self, index: str) -> Iterator[list[Point]]:
        """All points, page by page, with only `metadata` of the payload and without vectors."""
        ...

    def indexes(self) -> list[str]:
        """All physical collections, including unmanaged ones."""
        ...

    def aliases(self) -> dict[str, str]:
        """Maps public names to physical collections."""
        ...

    def optimize(self, index: str) -> None:
        """Start merging, indexing and cleaning in the engine, and return; `condition` reports progress.

        Searches and writes continue meanwhile. No effect while it is already running.
        """
        ...

    def condition(self, index: str) -> IndexStatus:
        """How the engine stores an index, and the state of its optimiser."""
        ...

    def lacks_replicas(self, index: str) -> bool:
        """True if losing one cluster node would lose points of this index. False if a single copy is configured, or
        without a cluster.
        """
        ...

    def is_alive(self) -> bool: ...
    def inspect(self, index: str, ids: Sequence[str]) -> PointDamage | None:
        """Damage of the given points that exist. None if each has a vector of length 1, a text matching its hash and
        sparse vector, and if searches with their vectors and words find equally near points.

        Raises NotFoundError, and EngineFaultError if the engine cannot read its own data.
        """
        ...


class Soundness(Protocol):
    """Checks whether a collection's index can be searched."""

    def require_sound(self, collection: Collection) -> None:
        """Raises DamagedIndexError."""
        ...

    def map_fault(self, collection: Collection, fault: EngineFaultError) -> VectorIndexUnavailableError:
        """The error to raise for an engine fault: the fault itself, or a DamagedIndexError if the index is damaged."""
        ...


class AlwaysSound:
    """A `Soundness` for which every collection is sound, where nothing checks for damage."""

    def require_sound(self, collection: Collection) -> None:
        pass

    def map_fault(self, collection: Collection, fault: EngineFaultError) -> VectorIndexUnavailableError:
        return fault


class LensIndexing(Protocol):
    """Labels of chunks under the lens indexes of their collection."""

    def upsert(self, collection: Collection, points: Sequence[Point]) -> None:
        """Write points to the active index, with labels for all existing lens indexes."""
        ...

    def build(self, job: Job, *, heartbeat: Callable[[float], None]) -> int:
        """Label every chunk of the collection, then complete the job. Returns the number of labelled chunks.

        `heartbeat` gets the progress from 0 to 1; its errors propagate.
        """
        ...


class BlobBatch(Protocol):
    def put_file(self, file: BinaryIO) -> StoredBytes:
        """Raises OSError if `file` cannot be read, FilesUnavailableError if it cannot be stored."""
        ...

    def put_text(self, content_hash: str, parts: Iterable[str]) -> None: ...
    def put_layout(self, content_hash: str, layout: TextLayout) -> None:
        """Replaces the layout of this text."""
        ...

    def keep(self) -> None:
        """Make everything put so far durable and visible before the block ends."""
        ...


class BlobStore(Protocol):
    """Original bytes by SHA-256, and the text extracted from them."""

    def put(self, data: bytes) -> str: ...
    def put_file(self, file: BinaryIO) -> StoredBytes:
        """Reads from the beginning, in pieces. The hash is of the stored bytes, even if the file changes meanwhile."""
        ...

    def batch(self) -> AbstractContextManager[BlobBatch]:
        """When the block ends, everything put into the batch is durable; after an error, none of it needs to be.
        Needs few syncs for many files.
        """
        ...

    def has(self, content_hash: str) -> bool: ...
    def is_sound(self, content_hash: str) -> bool:
        """True if the bytes exist and match their hash. Reads them, unless they were read since their last change."""
        ...

    def is_changed(self, content_hash: str, byte_count: int) -> bool:
        """True if `is_sound` would have to read: the bytes are missing, have another size, or were not read yet."""
        ...

    def byte_count(self, content_hash: str) -> int | None:
        """None if the bytes are missing."""
        ...

    def has_text(self, content_hash: str) -> bool: ...
    def is_text_sound(self, content_hash: str) -> bool:
        """True if text and layout exist as written. Reads them, unless they were read since their last change."""
        ...

    def has_text_digest(self, content_hash: str) -> bool:
        """True if the text exists with a digest; texts of earlier releases have none."""
        ...

    def verified(self, content_hash: str) -> Path:
        """The current path of the bytes, after checking their hash. Raises NotFoundError and DamagedFileError."""
        ...

    def put_parts(self, content_hash: str, parts: Iterable[bytes]) -> None:
        """For data too large for memory; the caller has checked its hash."""
        ...

    def get(self, content_hash: str) -> bytes:
        """Raises NotFoundError."""
        ...

    def put_text(self, content_hash: str, parts: Iterable[str]) -> None: ...
    def get_text(self, content_hash: str) -> str:
        """Raises NotFoundError, and DamagedFileError if the text was altered. The other readers of texts do the
        same.
        """
        ...

    def text_bytes(self, content_hash: str) -> Iterator[bytes]:
        """UTF-8 in pieces. Raises like `get_text`, but reports damage only after the last piece."""
        ...

    def put_layout(self, content_hash: str, layout: TextLayout) -> None:
        """Replaces the layout of this text."""
        ...

    def layout(self, content_hash: str, start: int, end: int) -> TextLayout:
        """The layout that overlaps characters [start, end); empty if none is stored. Raises DamagedFileError."""
        ...

    def get_layout(self, content_hash: str) -> bytes:
        """The layout as stored. Raises like `get_text`."""
        ...

    def put_layout_bytes(self, content_hash: str, parts: Iterable[bytes]) -> None:
        """Stores bytes from `get_layout`. Invalid bytes are stored, too, and count as a damaged layout."""
        ...

    def text_window(self, content_hash: str, start: int, end: int) -> TextWindow:
        """The existing part of characters [start, end), without loading the whole text. Raises NotFoundError."""
        ...

    def path(self, content_hash: str) -> Path: ...
    def locate(self, content_hash: str) -> Path:
        """The current path of the bytes, which `discard` may change. Raises NotFoundError."""
        ...

    def discard(self, content_hash: str, *, is_needed: Callable[[], bool]) -> None:
        """Delete bytes and text unless needed; calls `is_needed` after moving them aside.

        Adding a document checks for its bytes after inserting its row, so no needed file is lost.
        """
        ...

    def hashes(self) -> Iterator[str]:
        """Hashes of everything stored."""
        ...
