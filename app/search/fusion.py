"""Fuses the rankings of several legs (query vectors, BM25) into one. Knows neither index nor model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from app.types.documents import ScoredPoint
from app.types.search import Leg, LegRank

# Chosen on fourteen collections and half of 120 questions: docs/evaluation/fusion.md
WEIGHTS: Mapping[Leg, float] = MappingProxyType({Leg.DENSE: 0.53, Leg.PLAIN: 0.27, Leg.SPARSE: 0.2})
# For a query in a language that the model does not read. Chosen on Spanish, Russian and Hindi, measured on others.
UNREAD_WEIGHTS: Mapping[Leg, float] = MappingProxyType({Leg.DENSE: 0.1, Leg.PLAIN: 0.1, Leg.SPARSE: 0.8})
# BM25 scores grow with the number of query words: a passage with most of the words scores about
# `_BM25_PER_TERM * (terms + _MORE_TERMS)`.
_BM25_PER_TERM, _MORE_TERMS = 2.07, 3.4
_POWER = 1.4  # above 1: a passage with twice as many of the words gets more than twice the share
_BEND = 3.0  # how sharply `word_share` bends as it approaches 1


@dataclass(frozen=True, slots=True)
class RankedPoint:
    """A point with its rank in each leg. `point.score` decides the ranking."""

    point: ScoredPoint
    legs: tuple[LegRank, ...] = ()


def fuse(
    legs: Mapping[Leg, Sequence[ScoredPoint]],
    *,
    terms: int,
    weights: Mapping[Leg, float] = WEIGHTS,
    beyond: Mapping[Leg, Sequence[ScoredPoint]] = MappingProxyType({}),
    most: int | None = None,
) -> list[ScoredPoint]:
    """Returns the best `most` points by the weighted mean of their cosines and their `word_share`; ties by id.

    legs: the points of each leg, best first. terms: number of distinct words of the query. beyond: further points of a
    leg, after its last one; they do not change the lowest cosine of the leg.

    A point that a vector leg did not return counts with the lowest cosine of that leg, an upper bound of its own
    cosine; in the sparse leg it counts 0. A leg without a weight does not affect the scores. The weight of an empty leg
    goes to the other legs of its kind (vectors, words), else to all legs.
    """
    points, shares, lowest = leg_shares(legs, terms=terms)
    shared = share_weights(weights, [leg for leg in shares if weights.get(leg)])
    for leg in beyond.keys() & shared.keys():
        shares[leg] = _shares(leg, beyond[leg], terms) | shares[leg]
    by_id = {point.id: point for point in (*points, *(point for more in beyond.values() for point in more))}
    totals = {
        point_id: sum(weight * shares[leg].get(point_id, lowest[leg]) for leg, weight in shared.items())
        for point_id in by_id
    }
    order = sorted(totals, key=lambda point_id: (-totals[point_id], point_id))[:most]
    return [ScoredPoint(point_id, max(0.0, totals[point_id]), by_id[point_id].payload) for point_id in order]


def rank_in_legs(points: Sequence[ScoredPoint], legs: Mapping[Leg, Sequence[ScoredPoint]]) -> list[RankedPoint]:
    """Adds to each point its rank and score in every leg that returned it."""
    ranks: dict[str, list[LegRank]] = {point.id: [] for point in points}
    for leg, leg_points in legs.items():
        for rank, point in enumerate(leg_points, start=1):
            if point.id in ranks:
                ranks[point.id].append(LegRank(leg, rank, point.score))
    return [RankedPoint(point, tuple(ranks[point.id])) for point in points]


def leg_shares(
    legs: Mapping[Leg, Sequence[ScoredPoint]], *, terms: int
) -> tuple[list[ScoredPoint], dict[Leg, dict[str, float]], dict[Leg, float]]:
    """Returns the distinct points; for every leg that is not empty, the cosines or word shares by point id; and for
    each such leg, the share of a point that it did not return."""
    points = list({point.id: point for leg_points in legs.values() for point in leg_points}.values())
    shares = {leg: _shares(leg, leg_points, terms) for leg, leg_points in legs.items() if leg_points}
    lowest = {leg: 0.0 if leg is Leg.SPARSE else min(by_id.values()) for leg, by_id in shares.items()}
    return points, shares, lowest


def word_share(score: float, terms: int) -> float:
    """A BM25 score on a scale from 0 to 1 that is comparable between queries.

    The score is divided by the usual score of a passage with most of the `terms` words, not by the best score of this
    query: if even the best passage has few of the words, its share stays low.
    """
    part = (max(0.0, score) / (_BM25_PER_TERM * (terms + _MORE_TERMS))) ** _POWER
    return part / (1 + part**_BEND) ** (1 / _BEND)


def share_weights(weights: Mapping[Leg, float], filled: Collection[Leg]) -> dict[Leg, float]:
    """Distributes the weights over the legs in `filled`, first among legs of one kind; the sum is 1."""
    shared: dict[Leg, float] = {}
    for kind in ([leg for leg in weights if leg is not Leg.SPARSE], [Leg.SPARSE]):
        present = sum(weights.get(leg, 0.0) for leg in kind if leg in filled)
        whole = sum(weights.get(leg, 0.0) for leg in kind)
        shared |= {leg: weights[leg] * (whole / present) for leg in kind if leg in filled}
    total = sum(shared.values())
    return {leg: weight / total for leg, weight in shared.items()}


def _shares(leg: Leg, points: Sequence[ScoredPoint], terms: int) -> dict[str, float]:
    """The `word_share` of each point by id in the sparse leg; in other legs its score, which is a cosine."""
    if leg is Leg.SPARSE:
        return {point.id: word_share(point.score, terms) for point in points}
    return {point.id: point.score for point in points}
