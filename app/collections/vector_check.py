"""Embeds passages again and compares the vectors. This finds an altered number even if the vector has length 1.

It costs what embedding them costs. Texts are proven by their hashes first, so what differs is the vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.collections.index_probe import sample_of
from app.errors import EngineFaultError
from app.ports.ledger import Ledger
from app.ports.parts import Embedder, VectorIndex
from app.types.chunk_text import embedded_text_of, has_its_hash
from app.types.documents import Collection, Point

# Of a number of a unit vector. Other texts of a batch move one by up to 0.0015 in bfloat16; one that is less wrong than
# this moves a cosine by 0.0002.
_MOST_OFF = 0.02


@dataclass(frozen=True, slots=True)
class ComparedVectors:
    compared: int
    ids: tuple[str, ...]  # of those that differ

    @property
    def is_of_points(self) -> bool:
        """Else it is the model that makes other vectors than the collection has."""
        return 2 * len(self.ids) <= max(2, self.compared)


def compare_vectors(
    catalog: Ledger, index: VectorIndex, embedder: Embedder, collection: Collection, *, sample: int | None
) -> ComparedVectors:
    """Of so many chunks of the active index; without `sample` of all. `embedder` is the model that made them."""
    compared, wrong = 0, []
    count = catalog.chunk_count(collection.active_index) if sample is None else sample
    for ids in sample_of(catalog, collection, count):
        points = [each for each in _points(index, collection.active_index, ids) if has_its_hash(each.payload)]
        compared += len(points)
        wrong += [
            each.id
            for each, again in zip(points, _embedded(embedder, collection, points), strict=True)
            if not _is_alike(each, again)
        ]
    return ComparedVectors(compared, tuple(wrong))


def _points(index: VectorIndex, name: str, ids: Sequence[str]) -> list[Point]:
    """None where the engine cannot read them, which another check tells."""
    try:
        return index.retrieve(name, ids)
    except EngineFaultError:
        return []


def _embedded(embedder: Embedder, collection: Collection, points: Sequence[Point]) -> list[list[list[float]]]:
    texts = [embedded_text_of(each.payload) for each in points]
    if not texts:
        return []
    instruction, steps = collection.document_instruction, collection.document_steps
    if collection.vectors_per_chunk > 1:
        return embedder.embed_steps(texts, instruction=instruction, steps=steps)
    return [[each] for each in embedder.embed_documents(texts, instruction=instruction, steps=steps)]


def _is_alike(point: Point, again: Sequence[Sequence[float]]) -> bool:
    kept, made = np.asarray(point.steps, dtype=np.float64), np.asarray(again, dtype=np.float64)
    if kept.shape != made.shape or not np.isfinite(kept).all():
        return False
    made /= np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)  # as the engine keeps them
    return bool(np.abs(kept - made).max() <= _MOST_OFF)
