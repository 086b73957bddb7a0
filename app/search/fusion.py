"""One ranking of two: what the vector of a query finds, and what its words find. Knows neither index nor model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.types.documents import ScoredPoint
from app.types.search import LegRank, SearchMode

DENSE_WEIGHT = 0.75  # of 1, the words have the rest: docs/decisions/0010-hybrid-fusion.md


@dataclass(frozen=True, slots=True)
class RankedPoint:
    """`point.score` is what it is ranked by."""

    point: ScoredPoint
    legs: tuple[LegRank, ...] = ()


def fuse(
    dense: Sequence[ScoredPoint], sparse: Sequence[ScoredPoint], *, dense_weight: float = DENSE_WEIGHT
) -> list[RankedPoint]:
    """By the weighted sum of both scores, each as a share of the best one of its leg; ties by id.

    Both come best first. What only the words found gets the lowest cosine that was found, which its own does not
    exceed; what only the vector found shares no word, or few. A leg that found nothing leaves its weight to the other.
    """
    if not dense or not sparse:
        dense_weight = 1.0 if dense else 0.0
    by_vector, by_words = _shares(dense), _shares(sparse)
    lowest = min(by_vector.values(), default=0.0)
    totals = {
        point.id: dense_weight * by_vector.get(point.id, lowest) + (1 - dense_weight) * by_words.get(point.id, 0.0)
        for point in (*dense, *sparse)
    }
    legs: dict[str, tuple[LegRank, ...]] = {}
    for leg, found in ((SearchMode.DENSE, dense), (SearchMode.SPARSE, sparse)):
        for rank, point in enumerate(found, start=1):
            legs[point.id] = (*legs.get(point.id, ()), LegRank(leg, rank, point.score))
    points = {point.id: point for point in (*dense, *sparse)}
    order = sorted(totals, key=lambda point_id: (-totals[point_id], point_id))
    return [RankedPoint(replace(points[each], score=max(0.0, totals[each])), legs[each]) for each in order]


def _shares(found: Sequence[ScoredPoint]) -> dict[str, float]:
    """By id, 1 for the best. Where no score is above 0, which cosines alone can be, they are counted from -1."""
    if not found:
        return {}
    best = found[0].score
    if best <= 0:
        return {point.id: (1 + point.score) / (1 + best) if best > -1 else 1.0 for point in found}
    return {point.id: point.score / best for point in found}
