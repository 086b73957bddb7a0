"""Makes the points of one document what its chunks say: new ones are embedded, kept ones get their payload again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from app.ports import Embedder, VectorIndex
from app.types import Chunk, Collection, Point

Payload = Mapping[str, object]

_PAYLOAD_BATCH_SIZE = 256
_DELETE_BATCH_SIZE = 1_000


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Chunks that were embedded, chunks that kept their vector, and points that were removed."""

    embedded: int = 0
    reused: int = 0
    deleted: int = 0


class PresentPoints:
    """The ids that a document's points have, and which of them are wanted: 17 bytes each."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._foreign: list[str] = []  # numbered ones, which are not ours
        self._ids = np.sort(np.fromiter(self._uuids(ids), dtype="S16"))
        self._is_wanted = np.zeros(len(self._ids), dtype=bool)

    def want(self, point_id: str) -> bool:
        """Whether it is there; if so it stays."""
        key = UUID(point_id).bytes.rstrip(b"\0")  # as numpy gives it back
        place = int(np.searchsorted(self._ids, np.bytes_(key)))
        if place == len(self._ids) or self._ids[place] != key:
            return False
        self._is_wanted[place] = True
        return True

    def unwanted(self) -> Iterator[str]:
        for place in np.flatnonzero(~self._is_wanted):
            yield str(UUID(bytes=bytes(self._ids[place]).ljust(16, b"\0")))
        yield from self._foreign

    def _uuids(self, ids: Iterable[str]) -> Iterator[bytes]:
        for point_id in ids:
            if point_id.isdecimal():
                self._foreign.append(point_id)
            else:
                yield UUID(point_id).bytes


class PointWriter:
    """Takes the chunks of one document in order. `heartbeat` is called before each write, and raises to prevent it."""

    def __init__(
        self,
        *,
        index: VectorIndex,
        embedder: Embedder,
        collection: Collection,
        document_id: str,
        batch_size: int,
        heartbeat: Callable[[], None],
    ) -> None:
        self._index = index
        self._name = collection.active_index
        self._embedder = embedder
        self._collection = collection
        self._batch_size = batch_size
        self._heartbeat = heartbeat
        self._present = PresentPoints(index.point_ids(self._name, document_id=document_id))
        self._new: list[tuple[Chunk, Payload]] = []
        self._kept: dict[str, Payload] = {}
        self._embedded = self._reused = 0

    def write(self, chunk: Chunk, payload: Payload) -> None:
        if self._present.want(chunk.id):
            self._kept[chunk.id] = payload
            if len(self._kept) == _PAYLOAD_BATCH_SIZE:
                self._write_kept()
        else:
            self._new.append((chunk, payload))
            if len(self._new) == self._batch_size:
                self._write_new()

    def finish(self) -> IngestReport:
        """Writes what is left, and deletes the points that no chunk wanted."""
        self._write_new()
        self._write_kept()
        self._heartbeat()
        deleted = 0
        stale: list[str] = []
        for point_id in self._present.unwanted():
            stale.append(point_id)
            if len(stale) == _DELETE_BATCH_SIZE:
                deleted += self._delete(stale)
        deleted += self._delete(stale)
        return IngestReport(embedded=self._embedded, reused=self._reused, deleted=deleted)

    def _write_new(self) -> None:
        if not self._new:
            return
        vectors = embed_chunks(self._embedder, self._collection, [chunk for chunk, _ in self._new])
        self._heartbeat()  # still ours? then write
        points = [Point(c.id, vector, payload) for (c, payload), vector in zip(self._new, vectors, strict=True)]
        self._index.upsert(self._name, points)
        self._embedded += len(self._new)
        self._new.clear()

    def _write_kept(self) -> None:
        if not self._kept:
            return
        self._heartbeat()
        self._index.set_payloads(self._name, self._kept)
        self._reused += len(self._kept)
        self._kept = {}

    def _delete(self, ids: list[str]) -> int:
        count = len(ids)
        if count:
            self._index.delete_points(self._name, ids)
            ids.clear()
        return count


def embed_chunks(embedder: Embedder, collection: Collection, chunks: Sequence[Chunk]) -> list[list[float]]:
    """Raises ValueError for a vector that cannot be used."""
    vectors = embedder.embed_documents(
        [chunk.text for chunk in chunks],
        instruction=collection.document_instruction,
        steps=collection.document_steps,
    )
    for chunk, vector in zip(chunks, vectors, strict=True):
        if len(vector) != collection.dimension or not all(math.isfinite(value) for value in vector):
            raise ValueError(
                f"The model {embedder.model_name} gave no usable vector for characters {chunk.start} to "
                f"{chunk.end}: {len(vector)} values, of which {sum(map(math.isfinite, vector))} are finite."
            )
    return vectors
