"""What the core needs of models, vector indexes, and stored files, as protocols; `app.wiring` joins them."""

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
    """Turns texts into L2-normalised vectors of `info.dimension` numbers. Safe to call from several threads."""

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
        """Raises InputError (from app.errors) when the text, instruction, steps or bias cannot be used."""
        ...

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]: ...
    def embed_steps(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[list[float]]]:
        """Of documents the vectors after each of 1 to `steps` steps, the last of which `embed_documents` gives."""
        ...


class SharedEmbedder(Embedder, Protocol):
    def for_ingestion(self, is_leaving: Callable[[], bool]) -> Embedder:
        """The same model for ingestion: queries overtake its texts between two batches.

        `is_leaving` is asked in the thread that waits; once it says yes, UnavailableError ends the wait.
        """
        ...


class TextVectors(NamedTuple):
    """Of points, in one order: their texts, and their vectors (n, D)."""

    texts: Sequence[str]
    vectors: np.ndarray


class Labels(Protocol):
    """Labels of points: under a key of their payload a mapping, whose `value` is a number that searches and counts can
    go by, as the value of a chunk under a lens. A part of `VectorIndex`."""

    def add_labels(self, index: str, field: str) -> None:
        """Before the first label is set. No error when it was done already."""
        ...

    def set_labels(self, index: str, field: str, labels: Mapping[str, Mapping[str, object]]) -> None:
        """By id; ids that are not there are ignored. The rest of the payloads stays."""
        ...

    def drop_labels(self, index: str, field: str) -> None:
        """Of all points; no error when there are none."""
        ...

    def unlabelled(self, index: str, field: str) -> Iterator[tuple[list[str], TextVectors]]:
        """Ids, texts and vectors of chunks without this label, page by page. What gets it meanwhile is left out."""
        ...

    def count_unlabelled(self, index: str, field: str) -> int: ...
    def labelled(self, index: str, field: str, *, value: int | None = None) -> Iterator[list[Point]]:
        """Points that have this label, page by page, with payloads and without vectors; with `value` those of it."""
        ...


class SearchedIndex(Protocol):
    """What a search asks of physical collections of points. Errors as of `VectorIndex`."""

    def has_sparse(self, index: str) -> bool:
        """Whether `search_sparse` and `search_legs` can be asked: indexes of earlier releases keep no words."""
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
        """Nearest by cosine, of multivectors by that of the vector that is most alike (max-sim); ties broken by id.
        `filters` compare document metadata by equality; with `label` only
        points that have it are found.

        Scores are exact. Nothing is missed unless the index is large and was optimised: docs/search-at-scale.md.
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
        """What `search` finds, and so many of those that have the label of `labelled`, in one request."""
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
        """Best by BM25 of those that share a word with `text`; ties broken by id. Needs `has_sparse`."""
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
        """What `search` finds for each vector, and what `search_sparse` does, `limit` of each, in one request; where
        `text` is "" no words are looked for. Else it needs `has_sparse`."""
        ...

    def retrieve(self, index: str, ids: Sequence[str]) -> list[Point]:
        """Those of these points that are there, with vectors and payloads, in any order."""
        ...

    def payloads(self, index: str, ids: Sequence[str]) -> dict[str, dict[str, object]]:
        """Of those of these points that are there, by id."""
        ...

    def vectors(self, index: str, ids: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """Ids and vectors (n, D) of those of these points that are there, in any order; of multivectors the last."""
        ...

    def owned_vectors(self, index: str, ids: Sequence[str]) -> Owned[TextVectors]:
        """Texts and vectors of those of these points that are chunks of documents."""
        ...

    def owned_labels(self, index: str, field: str, ids: Sequence[str]) -> Owned[Sequence[Mapping[str, object] | None]]:
        """Labels of those of these points that are chunks of documents; None of those that have none."""
        ...

    def all_labels(self, index: str, field: str) -> Iterator[Mapping[str, Mapping[str, object]]]:
        """The labels of all points that have one, by id, some hundreds at a time."""
        ...

    def label_counts(self, index: str, field: str, *, filters: Mapping[str, str] | None = None) -> dict[int, int]:
        """How many points have which `value`."""
        ...

    def count(self, index: str) -> int: ...


class VectorIndex(Labels, SearchedIndex, Protocol):
    """Physical collections of points. Every method raises VectorIndexUnavailableError when the engine is away.

    Payload of a point follows LangChain's Qdrant convention: `page_content` (the chunk's text) and `metadata`, which
    holds the document's metadata plus `_collection_name`-free keys `document_id, title, uri, ordinal, start, end,
    page, text_hash`. Beside these two stand labels.
    """

    def create(self, index: str, *, dimension: int, vectors_per_point: int = 1) -> None:
        """Makes an empty physical collection (cosine, and words), of multivectors where a point has several. No error
        when it exists with the same vectors."""
        ...

    def drop(self, index: str) -> None: ...
    def exists(self, index: str) -> bool: ...
    def point_to(self, alias: str, index: str) -> None:
        """Makes the public name `alias` mean `index`, in one step."""
        ...

    def upsert(self, index: str, points: Sequence[Point]) -> None:
        """Waits until the points are searchable. NaN, infinite and zero vectors raise ValueError first, and so does
        one vector where the index holds multivectors, or several where it does not.

        The words of a chunk are those of its `page_content`, which goes with its id: `set_payloads` leaves them.
        """
        ...

    def set_payloads(self, index: str, payloads: Mapping[str, Mapping[str, object]]) -> None:
        """Replaces text and metadata of these points; vectors and labels stay. Ids that are not there are ignored."""
        ...

    def delete_points(self, index: str, ids: Sequence[str]) -> None: ...
    def delete_document(self, index: str, document_id: str) -> None: ...
    def count(self, index: str, *, document_id: str | None = None) -> int: ...
    def point_ids(self, index: str) -> Iterator[str]: ...
    def points_of(self, index: str, document_ids: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Ids of the points of these documents, each after the id of its document."""
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

    def lacks_replicas(self, index: str) -> bool:
        """Whether one lost node of a cluster takes points of this index away. False where one copy was asked for, and
        for an engine that is no cluster."""
        ...

    def is_alive(self) -> bool: ...
    def inspect(self, index: str, ids: Sequence[str]) -> PointDamage | None:
        """What is wrong with those of these points that are there; None where each has a vector of length 1, a text
        that has its hash and the words of that, and searches with their vectors and words find something so near.

        Raises NotFoundError, and EngineFaultError where the engine cannot read what it has stored.
        """
        ...


class Soundness(Protocol):
    """Whether the index of a collection can be searched."""

    def require_sound(self, collection: Collection) -> None:
        """Raises DamagedIndexError."""
        ...

    def explain(self, collection: Collection, fault: EngineFaultError) -> VectorIndexUnavailableError:
        """What is to be raised in place of a fault of the engine: itself, unless the index is damaged."""
        ...


class Unwatched:
    """A `Soundness` that knows of no damage."""

    def require_sound(self, collection: Collection) -> None:
        pass

    def explain(self, collection: Collection, fault: EngineFaultError) -> VectorIndexUnavailableError:
        return fault


class LensIndexing(Protocol):
    """Labels of chunks under the lens indexes of their collection."""

    def upsert(self, collection: Collection, points: Sequence[Point]) -> None:
        """Writes points into the active index, with their labels under all lens indexes there are."""
        ...

    def build(self, job: Job, *, heartbeat: Callable[[float], None]) -> int:
        """Until every chunk of the collection has its label, and the job is done; how many got one.

        Raises what `heartbeat` raises, which takes the progress, 0 to 1.
        """
        ...


class BlobBatch(Protocol):
    def put_file(self, file: BinaryIO) -> StoredBytes:
        """Raises OSError when `file` cannot be read, FilesUnavailableError when it cannot be kept."""
        ...

    def put_text(self, content_hash: str, parts: Iterable[str]) -> None: ...
    def put_layout(self, content_hash: str, layout: TextLayout) -> None:
        """Of its text, in the place of what was there."""
        ...

    def keep(self) -> None:
        """Makes what was put so far durable, and lets it be found, before the block ends."""
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
    def is_sound(self, content_hash: str) -> bool:
        """Whether the bytes are there and have their hash. Reads them, unless they were read since they changed."""
        ...

    def is_changed(self, content_hash: str, byte_count: int) -> bool:
        """Whether `is_sound` has something to read: the bytes are not there, not so many, or were not read yet."""
        ...

    def byte_count(self, content_hash: str) -> int | None:
        """None where the bytes are not there."""
        ...

    def has_text(self, content_hash: str) -> bool: ...
    def is_text_sound(self, content_hash: str) -> bool:
        """Whether the text is there, and it and its layout are what was written. Reads them as `is_sound` does."""
        ...

    def has_text_digest(self, content_hash: str) -> bool:
        """Whether the text is there with a digest, which those of earlier releases lack."""
        ...

    def verified(self, content_hash: str) -> Path:
        """Where the bytes lie at this moment, which have their hash. Raises NotFoundError and DamagedFileError."""
        ...

    def put_parts(self, content_hash: str, parts: Iterable[bytes]) -> None:
        """For bytes too many to hold at once, whose hash the caller has checked."""
        ...

    def get(self, content_hash: str) -> bytes:
        """Raises NotFoundError."""
        ...

    def put_text(self, content_hash: str, parts: Iterable[str]) -> None: ...
    def get_text(self, content_hash: str) -> str:
        """Raises NotFoundError, and DamagedFileError where it is not what was written. So do all that read it."""
        ...

    def text_bytes(self, content_hash: str) -> Iterator[bytes]:
        """In UTF-8, piece by piece. Raises as `get_text`, behind the last where it is damaged."""
        ...

    def put_layout(self, content_hash: str, layout: TextLayout) -> None:
        """Of its text, in the place of what was there."""
        ...

    def layout(self, content_hash: str, start: int, end: int) -> TextLayout:
        """What lies in characters [start, end), or reaches into them; an empty one where none is kept. Raises
        DamagedFileError."""
        ...

    def get_layout(self, content_hash: str) -> bytes:
        """As it is stored. Raises as `get_text`."""
        ...

    def put_layout_bytes(self, content_hash: str, parts: Iterable[bytes]) -> None:
        """As `get_layout` gave it; what is no layout is kept, and taken for a damaged one."""
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

        Adding a document checks for the bytes once its row is there; so none can get lost.
        """
        ...

    def hashes(self) -> Iterator[str]:
        """Of everything that is kept."""
        ...
