"""Two rankings become one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.search.fusion import fuse, rank_in_legs
from app.types.documents import ScoredPoint
from app.types.search import Leg, LegRank

COSINE = st.floats(-1, 1, allow_nan=False, width=32)
BM25 = st.floats(2**-6, 60, allow_nan=False, width=32)


def point(name: str, score: float) -> ScoredPoint:
    return ScoredPoint(name, score, {"page_content": name})


def leg_of(scores: st.SearchStrategy[float], most: int = 12) -> st.SearchStrategy[list[ScoredPoint]]:
    def ranked(found: dict[str, float]) -> list[ScoredPoint]:
        return sorted((point(*each) for each in found.items()), key=lambda each: (-each.score, each.id))

    return st.dictionaries(st.sampled_from("abcdefghijklmnop"), scores, max_size=most).map(ranked)


def both(dense: list[ScoredPoint], sparse: list[ScoredPoint]) -> dict[Leg, list[ScoredPoint]]:
    return {Leg.DENSE: dense, Leg.SPARSE: sparse}


def weighted(dense: float) -> dict[Leg, float]:
    return {Leg.DENSE: dense, Leg.SPARSE: 1 - dense}


def test_the_sum_is_that_of_both_shares() -> None:
    dense = [point("a", 0.8), point("b", 0.6), point("c", 0.4)]
    sparse = [point("d", 12.0), point("b", 9.0)]
    fused = {each.id: each for each in fuse(both(dense, sparse), weights=weighted(0.6))}
    assert fused["a"].score == pytest.approx(0.6 * 1)
    assert fused["b"].score == pytest.approx(0.6 * 0.75 + 0.4 * 0.75)
    assert fused["c"].score == pytest.approx(0.6 * 0.5)
    assert fused["d"].score == pytest.approx(0.6 * 0.5 + 0.4 * 1)  # its cosine is at most that of c
    assert list(fused) == ["b", "d", "a", "c"]
    legs = {each.point.id: each.legs for each in rank_in_legs(list(fused.values()), both(dense, sparse))}
    assert legs["b"] == (LegRank(Leg.DENSE, 2, 0.6), LegRank(Leg.SPARSE, 2, 9.0))
    assert legs["a"] == (LegRank(Leg.DENSE, 1, 0.8),)
    assert legs["d"] == (LegRank(Leg.SPARSE, 1, 12.0),)
    assert fused["d"].payload == {"page_content": "d"}


def test_two_empty_legs_find_nothing() -> None:
    assert fuse({Leg.DENSE: [], Leg.PLAIN: [], Leg.SPARSE: []}) == []


@given(leg_of(COSINE), leg_of(BM25), st.floats(0, 1))
def test_every_candidate_comes_once_best_first_with_its_legs(
    dense: list[ScoredPoint], sparse: list[ScoredPoint], weight: float
) -> None:
    fused = fuse(both(dense, sparse), weights=weighted(weight))
    assert sorted(each.id for each in fused) == sorted({each.id for each in (*dense, *sparse)})
    scores = [each.score for each in fused]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 + 1e-9 for score in scores)
    for each in rank_in_legs(fused, both(dense, sparse)):
        expected = [
            LegRank(leg, rank, one.score)
            for leg, found in ((Leg.DENSE, dense), (Leg.SPARSE, sparse))
            for rank, one in enumerate(found, start=1)
            if one.id == each.point.id
        ]
        assert list(each.legs) == expected


@given(leg_of(COSINE), st.sampled_from([Leg.DENSE, Leg.PLAIN, Leg.SPARSE]))
def test_a_leg_alone_keeps_its_order(found: list[ScoredPoint], leg: Leg) -> None:
    """And has its whole weight: its best hit is at 1."""
    if leg is Leg.SPARSE:
        found = [replace(each, score=each.score + 2) for each in found]
    fused = fuse({each: found if each is leg else [] for each in (Leg.DENSE, Leg.PLAIN, Leg.SPARSE)})
    best_first = [found.index(next(one for one in found if one.id == each.id)) for each in fused]
    assert [found[place].score for place in best_first] == pytest.approx([each.score for each in found], abs=1e-6)
    assert not fused or math.isclose(fused[0].score, 1)


@given(leg_of(COSINE), leg_of(BM25), st.floats(0.05, 0.95))
def test_what_is_better_in_both_legs_is_better(
    dense: list[ScoredPoint], sparse: list[ScoredPoint], weight: float
) -> None:
    cosines, words = ({each.id: each.score for each in found} for found in (dense, sparse))
    scores = {each.id: each.score for each in fuse(both(dense, sparse), weights=weighted(weight))}
    for one in cosines.keys() & words.keys():
        for other in cosines.keys() & words.keys():
            if cosines[one] >= cosines[other] and words[one] >= words[other]:
                assert scores[one] >= scores[other] - 1e-9


@given(leg_of(COSINE), leg_of(BM25))
def test_the_scale_of_bm25_makes_no_difference(dense: list[ScoredPoint], sparse: list[ScoredPoint]) -> None:
    larger = [replace(each, score=each.score * 4) for each in sparse]
    first, second = fuse(both(dense, sparse)), fuse(both(dense, larger))
    assert [(each.id, each.score) for each in first] == [(e.id, e.score) for e in second]


def test_a_leg_of_vectors_takes_the_weight_of_the_other_one() -> None:
    """Words weigh as much whether there are two legs of vectors or one."""
    dense, sparse = [point("a", 0.8), point("b", 0.4)], [point("b", 3.0)]
    weights = {Leg.DENSE: 0.5, Leg.PLAIN: 0.3, Leg.SPARSE: 0.2}
    alone = {each.id: each.score for each in fuse({Leg.DENSE: dense, Leg.SPARSE: sparse}, weights=weights)}
    assert alone == {"a": pytest.approx(0.8), "b": pytest.approx(0.8 * 0.5 + 0.2)}
    three = {Leg.DENSE: dense, Leg.PLAIN: [point("b", 0.9)], Leg.SPARSE: sparse}
    found = {each.id: each.score for each in fuse(three, weights=weights)}
    assert found == {"a": pytest.approx(0.5 + 0.3), "b": pytest.approx(0.25 + 0.3 + 0.2)}


def test_a_leg_without_a_weight_only_tells_where_it_had_a_point() -> None:
    legs = {Leg.DENSE: [point("a", 0.9), point("b", 0.1)], Leg.FEEDBACK: [point("b", 0.7)], Leg.SPARSE: []}
    fused = fuse(legs, weights={Leg.FEEDBACK: 0.75, Leg.SPARSE: 0.25})
    assert [(each.id, each.score) for each in fused] == [("a", 1.0), ("b", 1.0)]
    assert rank_in_legs(fused, legs)[1].legs == (LegRank(Leg.DENSE, 2, 0.1), LegRank(Leg.FEEDBACK, 1, 0.7))
