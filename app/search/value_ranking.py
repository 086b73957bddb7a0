"""Ranks under a lens with values: combines the first score with the similarity of the passage's and query's values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from app.search.value_labels import ValueReadings
from app.types.documents import ScoredPoint
from app.types.values import ValueReading

VALUE_WEIGHT = 0.5  # weight of the values; the first score has the rest: docs/evaluation/lens-values.md


def rank_by_values(
    points: Sequence[ScoredPoint], readings: ValueReadings, *, only: str | None = None, without: Collection[str] = ()
) -> Iterator[tuple[ScoredPoint, ValueReading]]:
    """Yields points with their new score and value, best first, ties by id.

    The similarity of values is a share of the best first score, so that it weighs as much in every mode.

    only: keeps passages of this value. without: drops passages of these values.
    """
    scores = np.array([point.score for point in points], dtype=np.float64)
    best = max(float(scores.max(initial=0.0)), np.finfo(np.float64).tiny)
    joined = ((1 - VALUE_WEIGHT) * np.maximum(scores, 0) + VALUE_WEIGHT * best * readings.similarities).tolist()
    wanted = [name not in without and only in (None, name) for name in readings.names]
    rows = [row for row, number in enumerate(readings.numbers.tolist()) if wanted[number]]
    rows.sort(key=lambda row: (-joined[row], points[row].id))
    return ((ScoredPoint(points[row].id, joined[row], points[row].payload), readings[row]) for row in rows)
