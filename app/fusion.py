"""One ranking of two: what the vector of a query finds, and what its words find. Knows neither index nor model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.search_types import LegRank, SearchMode
from app.types import ScoredPoint

DENSE_WEIGHT = 0.7  # of 1; the words have the rest. Chosen on queries that no table reports


@dataclass(frozen=True, slots=True)
class RankedPoint:
    """`point.score` is what it is ranked by."""

    point: ScoredPoint
    legs: tuple[LegRank, ...] = ()


def fuse(
    dense: Sequence[ScoredPoint],
    sparse: Sequence[ScoredPoint],
    *,
    dense_weight: float = DENSE_WEIGHT,
) -> list[RankedPoint]:
    """By the weighted sum of both scores, each brought to 0..1 among the candidates of its leg; ties by id.

    Both come best first. What only one leg found has 0 from the other: it is below all that that one found.
    """
    totals: dict[str, float] = {}
    points: dict[str, ScoredPoint] = {}
    legs: dict[str, list[LegRank]] = {}
    for leg, weight, found in (
        (SearchMode.DENSE, dense_weight, dense),
        (SearchMode.SPARSE, 1 - dense_weight, sparse),
    ):
        shares = _shares_of_cosines(found) if leg is SearchMode.DENSE else _shares_of_bm25(found)
        for rank, (point, share) in enumerate(zip(found, shares, strict=True), start=1):
            points.setdefault(point.id, point)
            totals[point.id] = totals.get(point.id, 0.0) + weight * share
            legs.setdefault(point.id, []).append(LegRank(leg, rank, point.score))
    order = sorted(totals, key=lambda point_id: (-totals[point_id], point_id))
    return [RankedPoint(replace(points[point_id], score=totals[point_id]), tuple(legs[point_id])) for point_id in order]


def _shares_of_cosines(found: Sequence[ScoredPoint]) -> list[float]:
    """From the lowest candidate, 0, to the best, 1: a cosine has no zero that means anything."""
    if not found:
        return []
    best, lowest = found[0].score, found[-1].score
    return [(point.score - lowest) / (best - lowest) if best > lowest else 1.0 for point in found]


def _shares_of_bm25(found: Sequence[ScoredPoint]) -> list[float]:
    """Of the best score: BM25 is 0 where no word is shared."""
    return [point.score / found[0].score for point in found]
