"""One ranking of several: what vectors of a query find, and what its words find. Knows neither index nor model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from app.types.documents import ScoredPoint
from app.types.search import Leg, LegRank

# Chosen on the tuning half: docs/evaluation/hybrid.md
WEIGHTS: Mapping[Leg, float] = MappingProxyType({Leg.DENSE: 0.5, Leg.PLAIN: 0.25, Leg.SPARSE: 0.25})
WEIGHTS_AFTER_FEEDBACK: Mapping[Leg, float] = MappingProxyType({Leg.FEEDBACK: 0.7, Leg.SPARSE: 0.3})


@dataclass(frozen=True, slots=True)
class RankedPoint:
    """`point.score` is what it is ranked by."""

    point: ScoredPoint
    legs: tuple[LegRank, ...] = ()


def fuse(
    legs: Mapping[Leg, Sequence[ScoredPoint]],
    *,
    weights: Mapping[Leg, float] = WEIGHTS,
    beyond: Mapping[Leg, Sequence[ScoredPoint]] = MappingProxyType({}),
    most: int | None = None,
) -> list[ScoredPoint]:
    """The best `most`, by the weighted mean of all scores, each as a share of the best one of its leg; ties by id.

    Each leg comes best first. What a leg of vectors did not find gets the lowest cosine that it found, which its own
    does not exceed; what only vectors found shares no word with the query, or few. A leg without a weight only tells
    where it had a point. The weight of a leg that found nothing goes to the others of its kind, else to all. Points
    `beyond` a leg's end count by their own scores; those of the others stay as they are.
    """
    _, shares, lowest = leg_shares(legs)
    shared = share_weights(weights, [leg for leg in shares if weights.get(leg)])
    for leg in beyond.keys() & shared.keys():
        shares[leg] = _shares([legs[leg][0], *beyond[leg]]) | shares[leg]
    by_id = {point.id: point for points in (*beyond.values(), *legs.values()) for point in points}
    totals = {
        point_id: sum(weight * shares[leg].get(point_id, lowest[leg]) for leg, weight in shared.items())
        for point_id in by_id
    }
    order = sorted(totals, key=lambda point_id: (-totals[point_id], point_id))[:most]
    return [ScoredPoint(each, max(0.0, totals[each]), by_id[each].payload) for each in order]


def rank_in_legs(points: Sequence[ScoredPoint], legs: Mapping[Leg, Sequence[ScoredPoint]]) -> list[RankedPoint]:
    """Where each leg had each of the points."""
    ranks: dict[str, list[LegRank]] = {each.id: [] for each in points}
    for leg, found in legs.items():
        for rank, point in enumerate(found, start=1):
            if point.id in ranks:
                ranks[point.id].append(LegRank(leg, rank, point.score))
    return [RankedPoint(each, tuple(ranks[each.id])) for each in points]


def leg_shares(
    legs: Mapping[Leg, Sequence[ScoredPoint]],
) -> tuple[list[ScoredPoint], dict[Leg, dict[str, float]], dict[Leg, float]]:
    """All points, each once; of every leg that found some, its scores by id as shares of the best one; and what counts
    for a point that it did not find."""
    points = list({point.id: point for found in legs.values() for point in found}.values())
    shares = {leg: _shares(found) for leg, found in legs.items() if found}
    return points, shares, {leg: 0.0 if leg is Leg.SPARSE else min(each.values()) for leg, each in shares.items()}


def share_weights(weights: Mapping[Leg, float], found: Collection[Leg]) -> dict[Leg, float]:
    """Of those that found something; 1 in all."""
    shared: dict[Leg, float] = {}
    for kind in ([leg for leg in weights if leg is not Leg.SPARSE], [Leg.SPARSE]):
        present = sum(weights.get(leg, 0.0) for leg in kind if leg in found)
        whole = sum(weights.get(leg, 0.0) for leg in kind)
        shared |= {leg: weights[leg] * (whole / present) for leg in kind if leg in found}
    total = sum(shared.values())
    return {leg: weight / total for leg, weight in shared.items()}


def _shares(found: Sequence[ScoredPoint]) -> dict[str, float]:
    """By id, 1 for the best. Where no score is above 0, which cosines alone can be, they are counted from -1."""
    best = found[0].score
    if best <= 0:
        return {point.id: (1 + point.score) / (1 + best) if best > -1 else 1.0 for point in found}
    return {point.id: point.score / best for point in found}
