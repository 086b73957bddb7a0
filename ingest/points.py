"""Brings the points of documents in line with their chunks: embeds new chunks, rewrites the payload of kept ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from app.errors import NoAnswerError, UnansweredWriteError
from app.ports.parts import Embedder, LensIndexing, VectorIndex
from app.types.chunk_text import with_context
from app.types.documents import Chunk, Collection, Point

Payload = Mapping[str, object]

_PAYLOAD_BATCH_SIZE = 256
_DELETE_BATCH_SIZE = 1_000


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Counts of chunks embedded, chunks that kept their vector, points deleted, and chunks that got a missing label of
    a lens index."""

    embedded: int = 0
    reused: int = 0
    deleted: int = 0
    labelled: int = 0


class PresentPoints:
    """The ids of a document's present points, and which of them are wanted. Takes 17 bytes per point."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._unmanaged: list[str] = []  # numeric ids, which gircse never assigns
        self._ids = np.sort(np.fromiter(self._uuids(ids), dtype="S16"))
        self._is_wanted = np.zeros(len(self._ids), dtype=bool)

    def want(self, point_id: str) -> bool:
        """Whether the point is present. If so, it is marked as wanted and will not be deleted."""
        key = UUID(point_id).bytes.rstrip(b"\0")  # numpy strips trailing zeros, too
        row = int(np.searchsorted(self._ids, np.bytes_(key)))
        if row == len(self._ids) or self._ids[row] != key:
            return False
        self._is_wanted[row] = True
        return True

    def unwanted(self) -> Iterator[str]:
        for row in np.flatnonzero(~self._is_wanted):
            yield str(UUID(bytes=bytes(self._ids[row]).ljust(16, b"\0")))
        yield from self._unmanaged

    def _uuids(self, ids: Iterable[str]) -> Iterator[bytes]:
        for point_id in ids:
            if point_id.isdecimal():
                self._unmanaged.append(point_id)
            else:
                yield UUID(point_id).bytes


class PointWriter:
    """Writes the points of documents, one document after the other.

    Before each write it calls `held`, which returns the ids of documents that may be written; points of others are
    dropped. Then it calls `before_write`, which stores everything that must exist once a search finds the points.
    `before_embedding` is called before each call of the model.
    """

    def __init__(
        self,
        *,
        index: VectorIndex,
        lens_indexing: LensIndexing,
        embedder: Embedder,
        collection: Collection,
        document_ids: Sequence[str],
        batch_size: int,
        held: Callable[[], Container[str]],
        before_write: Callable[[], None],
        before_embedding: Callable[[], None],
    ) -> None:
        self._index = index
        self._lens_indexing = lens_indexing
        self._name = collection.active_index
        self._embedder = embedder
        self._collection = collection
        self._batch_size = batch_size
        self._held = held
        self._before_write = before_write
        self._before_embedding = before_embedding
        self._present = _present_points(index, self._name, document_ids)
        self._new: list[tuple[Chunk, Payload]] = []
        self._kept: list[tuple[Chunk, Payload]] = []
        self._embedded: Counter[str] = Counter()
        self._reused: Counter[str] = Counter()

    def write(self, chunk: Chunk, payload: Payload) -> None:
        if self._present[chunk.document_id].want(chunk.id):
            self._kept.append((chunk, payload))
            if len(self._kept) == _PAYLOAD_BATCH_SIZE:
                self._write_kept()
        else:
            self._new.append((chunk, payload))
            if len(self._new) == self._batch_size:
                self._write_new()

    def finish(self, document_ids: Iterable[str]) -> dict[str, IngestReport]:
        """Writes the rest, and deletes the points that no chunk of these documents wanted.

        Returns reports only for documents that `held` still contains.
        """
        self._write_new()
        self._write_kept()
        held = self._held()
        reports: dict[str, IngestReport] = {}
        stale: list[str] = []
        for document_id in document_ids:
            if document_id not in held:
                continue
            deleted = 0
            for point_id in self._present[document_id].unwanted():
                deleted += 1
                stale.append(point_id)
                if len(stale) == _DELETE_BATCH_SIZE:
                    self._delete(stale)
            reports[document_id] = IngestReport(self._embedded[document_id], self._reused[document_id], deleted)
        self._delete(stale)
        return reports

    def _write_new(self) -> None:
        if not self._new:
            return
        self._before_embedding()
        vectors = embed_chunks(self._embedder, self._collection, [chunk for chunk, _ in self._new])
        held = self._held()  # embedding took time: check again before the write
        points = [
            Point.of_steps(chunk.id, steps, payload)
            for (chunk, payload), steps in zip(self._new, vectors, strict=True)
            if chunk.document_id in held
        ]
        if points:
            self._before_write()
            with _suspected():
                self._lens_indexing.upsert(self._collection, points)
        self._embedded.update(chunk.document_id for chunk, _ in self._new)
        self._new.clear()

    def _write_kept(self) -> None:
        if not self._kept:
            return
        held = self._held()
        payloads = {chunk.id: payload for chunk, payload in self._kept if chunk.document_id in held}
        if payloads:
            self._before_write()
            with _suspected():
                self._index.set_payloads(self._name, payloads)
        self._reused.update(chunk.document_id for chunk, _ in self._kept)
        self._kept.clear()

    def _delete(self, ids: list[str]) -> None:
        if ids:
            self._index.delete_points(self._name, ids)
            ids.clear()


@contextmanager
def _suspected() -> Iterator[None]:
    """Marks a write that gets no answer: the engine has answered `_present_points` before."""
    try:
        yield
    except NoAnswerError as error:
        raise UnansweredWriteError(str(error)) from error


def _present_points(index: VectorIndex, name: str, document_ids: Sequence[str]) -> dict[str, PresentPoints]:
    if len(document_ids) == 1:  # possibly a long document: do not hold its ids as strings
        (document_id,) = document_ids
        return {document_id: PresentPoints(point_id for _, point_id in index.points_of(name, document_ids))}
    ids: dict[str, list[str]] = {document_id: [] for document_id in document_ids}
    for document_id, point_id in index.points_of(name, document_ids):
        ids[document_id].append(point_id)
    return {document_id: PresentPoints(point_ids) for document_id, point_ids in ids.items()}


def embed_chunks(embedder: Embedder, collection: Collection, chunks: Sequence[Chunk]) -> list[list[list[float]]]:
    """Embeds chunks with their context: per chunk a list of vectors, (chunks, collection.vectors_per_chunk, dimension).

    That is one vector, or those of all steps if the collection stores these. Raises ValueError for a vector of the
    wrong dimension or with a value that is not finite.
    """
    texts = [with_context(chunk.context, chunk.text) for chunk in chunks]
    instruction, count = collection.document_instruction, collection.document_steps
    if collection.vectors_per_chunk > 1:
        vectors = embedder.embed_steps(texts, instruction=instruction, steps=count)
    else:
        vectors = [[vector] for vector in embedder.embed_documents(texts, instruction=instruction, steps=count)]
    for chunk, steps in zip(chunks, vectors, strict=True):
        _check_usable(steps, chunk, collection, embedder.info.name)
    return vectors


def _check_usable(steps: Sequence[Sequence[float]], chunk: Chunk, collection: Collection, model: str) -> None:
    about = f"The model {model} gave no usable vector for characters {chunk.start} to {chunk.end}"
    if len(steps) != collection.vectors_per_chunk:
        raise ValueError(f"{about}: {len(steps)} vectors, not {collection.vectors_per_chunk}.")
    for vector in steps:
        if len(vector) != collection.dimension or not all(map(math.isfinite, vector)):
            finite = sum(map(math.isfinite, vector))
            raise ValueError(f"{about}: {len(vector)} values, of which {finite} are finite.")
