"""One ranking of several: what vectors of a query find, and what its words find. Knows neither index nor model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from app.types.documents import ScoredPoint
from app.types.search import Leg, LegRank

# Where a leg is missing or found nothing, the others share its weight. docs/decisions/0010-hybrid-fusion.md
WEIGHTS: Mapping[Leg, float] = MappingProxyType({Leg.DENSE: 0.75, Leg.SPARSE: 0.25})


@dataclass(frozen=True, slots=True)
class RankedPoint:
    """`point.score` is what it is ranked by."""

    point: ScoredPoint
    legs: tuple[LegRank, ...] = ()


def fuse(legs: Mapping[Leg, Sequence[ScoredPoint]], *, weights: Mapping[Leg, float] = WEIGHTS) -> list[RankedPoint]:
    """By the weighted mean of all scores, each as a share of the best one of its leg; ties by id.

    Each leg comes best first. What a leg of vectors did not find gets the lowest cosine that it found, which its own
    does not exceed; what only vectors found shares no word with the query, or few.
    """
    found = {leg: points for leg, points in legs.items() if points and weights.get(leg, 0.0) > 0}
    whole = sum(weights[leg] for leg in found)
    totals: dict[str, float] = {}
    ranks: dict[str, list[LegRank]] = {}
    by_id = {point.id: point for points in legs.values() for point in points}
    shares = {leg: _shares(points) for leg, points in found.items()}
    lowest = {leg: 0.0 if leg is Leg.SPARSE else min(each.values()) for leg, each in shares.items()}
    for point_id in by_id:
        totals[point_id] = sum(weights[leg] / whole * each.get(point_id, lowest[leg]) for leg, each in shares.items())
    for leg, points in legs.items():
        for rank, point in enumerate(points, start=1):
            ranks.setdefault(point.id, []).append(LegRank(leg, rank, point.score))
    order = sorted(totals, key=lambda point_id: (-totals[point_id], point_id))
    return [RankedPoint(replace(by_id[each], score=max(0.0, totals[each])), tuple(ranks[each])) for each in order]


def _shares(found: Sequence[ScoredPoint]) -> dict[str, float]:
    """By id, 1 for the best. Where no score is above 0, which cosines alone can be, they are counted from -1."""
    best = found[0].score
    if best <= 0:
        return {point.id: (1 + point.score) / (1 + best) if best > -1 else 1.0 for point in found}
    return {point.id: point.score / best for point in found}
