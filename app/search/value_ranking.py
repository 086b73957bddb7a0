"""A ranking under a lens with values: the first score joined with how alike passage and query are among the values."""

from __future__ import annotations

from collections.abc import Sequence

from app.search.fusion import RankedPoint
from app.types.documents import ScoredPoint
from app.types.values import ValueReading

VALUE_WEIGHT = 0.5  # of 1, the first score has the rest; not tuned yet


def rank_by_values(
    points: Sequence[RankedPoint], readings: Sequence[ValueReading], *, value: str | None
) -> list[tuple[RankedPoint, ValueReading]]:
    """Best first, ties by id. The first score counts as a share of the best one; `value` leaves only passages of it."""
    best = max((each.point.score for each in points), default=0.0)

    def joined(ranked: RankedPoint, reading: ValueReading) -> float:
        share = max(ranked.point.score, 0.0) / best if best > 0 else 0.0
        return (1 - VALUE_WEIGHT) * share + VALUE_WEIGHT * reading.similarity

    scored = [
        (joined(ranked, reading), ranked, reading)
        for ranked, reading in zip(points, readings, strict=True)
        if value is None or reading.name == value
    ]
    scored.sort(key=lambda each: (-each[0], each[1].point.id))
    return [
        (RankedPoint(ScoredPoint(ranked.point.id, score, ranked.point.payload), ranked.legs), reading)
        for score, ranked, reading in scored
    ]
