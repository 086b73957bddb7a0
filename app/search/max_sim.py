"""Late interaction (MaxSim): if a point has a vector per step, its greatest cosine counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.types.documents import Point


def best_cosines(points: Sequence[Point], queries: np.ndarray) -> np.ndarray:
    """Scores n points against unit vectors (D, S) like the index does: (n, S)."""
    cosines = np.asarray([point.vector for point in points], dtype=np.float64) @ queries
    for row, point in enumerate(points):
        if point.earlier_steps:
            earlier = np.asarray(point.earlier_steps, dtype=np.float64) @ queries
            cosines[row] = np.maximum(cosines[row], earlier.max(axis=0))
    return cosines
