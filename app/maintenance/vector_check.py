"""Embeds passages again and compares the vectors. This finds an altered number even if the vector has length 1.

It costs as much as embedding. Only passages whose text matches its hash are compared, so a difference is the vector's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.errors import EngineFaultError
from app.maintenance.index_probe import sample_of
from app.ports.parts import Embedder, VectorIndex
from app.types.chunk_text import embedded_text_of, has_its_hash
from app.types.documents import Collection, Point

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

# Tolerance for one number of a unit vector. In bfloat16 the other texts of a batch change it by up to 0.0015. An error
# below the tolerance changes a cosine by at most 0.0002.
_MOST_OFF = 0.02
_FEW = 8
_NEAR = 0.9  # cosine; int8 and bfloat16 stay far above it


@dataclass(frozen=True, slots=True)
class ComparedVectors:
    compared: int
    ids: tuple[str, ...]  # points whose vectors differ

    @property
    def is_of_points(self) -> bool:
        """Whether single points are wrong. If most differ, the model makes other vectors than the collection has."""
        return 2 * len(self.ids) <= max(2, self.compared)


def compare_vectors(
    catalog: SqlCatalog, index: VectorIndex, embedder: Embedder, collection: Collection, *, sample: int | None
) -> ComparedVectors:
    """Compare the vectors of `sample` chunks of the active index (None: all). `embedder` must be the same model."""
    compared, wrong = 0, []
    count = catalog.indexes.chunk_count(collection.active_index) if sample is None else sample
    for ids in sample_of(catalog, collection, count):
        points = [each for each in _points(index, collection.active_index, ids) if has_its_hash(each.payload)]
        compared += len(points)
        wrong += [
            each.id
            for each, again in zip(points, _embedded(embedder, collection, points), strict=True)
            if not _is_equal(each, again)
        ]
    return ComparedVectors(compared, tuple(wrong))


def computes_others(catalog: SqlCatalog, index: VectorIndex, embedder: Embedder, collection: Collection) -> bool:
    """Whether the model makes quite other vectors than the collection has, of most of a few passages.

    Its fingerprint covers its weights. Other files decide vectors, too, such as those of its tokenizer.
    """
    points = [
        point
        for ids in sample_of(catalog, collection, _FEW)
        for point in _points(index, collection.active_index, ids)
        if has_its_hash(point.payload)
    ]
    again = _embedded(embedder, collection, points)
    others = sum(not _is_near(point, vectors) for point, vectors in zip(points, again, strict=True))
    return others > max(1, len(points) // 2)


def _points(index: VectorIndex, name: str, ids: Sequence[str]) -> list[Point]:
    """The points, or an empty list if the engine cannot read them; another check reports that."""
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


def _is_near(point: Point, again: Sequence[Sequence[float]]) -> bool:
    kept, made = np.asarray(point.steps, dtype=np.float64), np.asarray(again, dtype=np.float64)
    if kept.shape != made.shape:
        return False
    lengths = np.linalg.norm(kept, axis=1) * np.linalg.norm(made, axis=1)
    return bool(((kept * made).sum(axis=1) >= _NEAR * lengths).all())


def _is_equal(point: Point, again: Sequence[Sequence[float]]) -> bool:
    kept, made = np.asarray(point.steps, dtype=np.float64), np.asarray(again, dtype=np.float64)
    if kept.shape != made.shape or not np.isfinite(kept).all():
        return False
    made /= np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)  # the engine stores normalised vectors
    return bool(np.abs(kept - made).max() <= _MOST_OFF)
