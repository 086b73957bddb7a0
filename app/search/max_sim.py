"""Late interaction: of a point with a vector for every step, the one that is most alike counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.types.documents import Point


def best_cosines(points: Sequence[Point], asked: np.ndarray) -> np.ndarray:
    """(n, S) of points and unit vectors (D, S), as an index scores them."""
    found = np.asarray([point.vector for point in points], dtype=np.float64) @ asked
    for row, point in enumerate(points):
        if point.earlier_steps:
            earlier = np.asarray(point.earlier_steps, dtype=np.float64) @ asked
            found[row] = np.maximum(found[row], earlier.max(axis=0))
    return found
