"""Vectors of points as archives and backups hold them: (n, D) float32, or (n, K, D) of multivectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.types.documents import Collection, Point


def stored_array(points: Sequence[Point]) -> np.ndarray:
    if any(point.earlier_steps for point in points):
        return np.asarray([point.steps for point in points], dtype=np.float32)
    return np.asarray([point.vector for point in points], dtype=np.float32)


def stored_shape(count: int, collection: Collection) -> tuple[int, ...]:
    """Of the array of so many of its points."""
    several = (collection.vectors_per_chunk,) if collection.vectors_per_chunk > 1 else ()
    return (count, *several, collection.dimension)


def steps_of(vectors: np.ndarray) -> list[list[list[float]]]:
    """Of each point the vectors of its steps, which may be one."""
    return (vectors if vectors.ndim == 3 else vectors[:, None]).tolist()
