"""Vectors of points in archives and backups: (n, D) float32, or (n, K, D) for multivectors of K steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.types.documents import Collection, Point


def stored_array(points: Sequence[Point]) -> np.ndarray:
    if any(point.earlier_steps for point in points):
        return np.asarray([point.steps for point in points], dtype=np.float32)
    return np.asarray([point.vector for point in points], dtype=np.float32)


def stored_shape(count: int, collection: Collection) -> tuple[int, ...]:
    """The shape of `stored_array` for `count` points of the collection."""
    several = (collection.vectors_per_chunk,) if collection.vectors_per_chunk > 1 else ()
    return (count, *several, collection.dimension)


def steps_of(vectors: np.ndarray) -> list[list[list[float]]]:
    """The list of step vectors of each point; one vector per point if `vectors` is (n, D)."""
    return (vectors if vectors.ndim == 3 else vectors[:, None]).tolist()
