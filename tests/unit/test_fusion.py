"""Two rankings become one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.search.fusion import fuse
from app.types.documents import ScoredPoint
from app.types.search import LegRank, SearchMode

COSINE = st.floats(-1, 1, allow_nan=False, width=32)
BM25 = st.floats(2**-6, 60, allow_nan=False, width=32)


def point(name: str, score: float) -> ScoredPoint:
    return ScoredPoint(name, score, {"page_content": name})


def leg_of(scores: st.SearchStrategy[float], most: int = 12) -> st.SearchStrategy[list[ScoredPoint]]:
    def ranked(found: dict[str, float]) -> list[ScoredPoint]:
        return sorted((point(*each) for each in found.items()), key=lambda each: (-each.score, each.id))

    return st.dictionaries(st.sampled_from("abcdefghijklmnop"), scores, max_size=most).map(ranked)


def test_the_sum_is_that_of_both_shares() -> None:
    dense = [point("a", 0.8), point("b", 0.6), point("c", 0.4)]
    sparse = [point("d", 12.0), point("b", 9.0)]
    fused = {each.point.id: each for each in fuse(dense, sparse, dense_weight=0.6)}
    assert fused["a"].point.score == pytest.approx(0.6 * 1)
    assert fused["b"].point.score == pytest.approx(0.6 * 0.75 + 0.4 * 0.75)
    assert fused["c"].point.score == pytest.approx(0.6 * 0.5)
    assert fused["d"].point.score == pytest.approx(0.6 * 0.5 + 0.4 * 1)  # its cosine is at most that of c
    assert list(fused) == ["b", "d", "a", "c"]
    assert fused["b"].legs == (LegRank(SearchMode.DENSE, 2, 0.6), LegRank(SearchMode.SPARSE, 2, 9.0))
    assert fused["a"].legs == (LegRank(SearchMode.DENSE, 1, 0.8),)
    assert fused["d"].legs == (LegRank(SearchMode.SPARSE, 1, 12.0),)
    assert fused["d"].point.payload == {"page_content": "d"}


def test_two_empty_legs_find_nothing() -> None:
    assert fuse([], []) == []


@given(leg_of(COSINE), leg_of(BM25), st.floats(0, 1))
def test_every_candidate_comes_once_best_first_with_its_legs(
    dense: list[ScoredPoint], sparse: list[ScoredPoint], weight: float
) -> None:
    fused = fuse(dense, sparse, dense_weight=weight)
    assert sorted(each.point.id for each in fused) == sorted({each.id for each in (*dense, *sparse)})
    scores = [each.point.score for each in fused]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 + 1e-9 for score in scores)
    for each in fused:
        expected = [
            LegRank(leg, rank, one.score)
            for leg, found in ((SearchMode.DENSE, dense), (SearchMode.SPARSE, sparse))
            for rank, one in enumerate(found, start=1)
            if one.id == each.point.id
        ]
        assert list(each.legs) == expected


@given(leg_of(COSINE), st.sampled_from([SearchMode.DENSE, SearchMode.SPARSE]))
def test_a_leg_alone_keeps_its_order(found: list[ScoredPoint], leg: SearchMode) -> None:
    """And has its whole weight: its best hit is at 1."""
    if leg is SearchMode.SPARSE:
        found = [replace(each, score=each.score + 2) for each in found]
    legs = (found, []) if leg is SearchMode.DENSE else ([], found)
    fused = fuse(*legs)
    best_first = [found.index(next(one for one in found if one.id == each.point.id)) for each in fused]
    assert [found[place].score for place in best_first] == pytest.approx([each.score for each in found], abs=1e-6)
    assert not fused or math.isclose(fused[0].point.score, 1)


@given(leg_of(COSINE), leg_of(BM25), st.floats(0.05, 0.95))
def test_what_is_better_in_both_legs_is_better(
    dense: list[ScoredPoint], sparse: list[ScoredPoint], weight: float
) -> None:
    cosines, words = ({each.id: each.score for each in found} for found in (dense, sparse))
    scores = {each.point.id: each.point.score for each in fuse(dense, sparse, dense_weight=weight)}
    for one in cosines.keys() & words.keys():
        for other in cosines.keys() & words.keys():
            if cosines[one] >= cosines[other] and words[one] >= words[other]:
                assert scores[one] >= scores[other] - 1e-9


@given(leg_of(COSINE), leg_of(BM25))
def test_the_scale_of_bm25_makes_no_difference(dense: list[ScoredPoint], sparse: list[ScoredPoint]) -> None:
    larger = [replace(each, score=each.score * 4) for each in sparse]
    first, second = fuse(dense, sparse), fuse(dense, larger)
    assert [(each.point.id, each.point.score) for each in first] == [(e.point.id, e.point.score) for e in second]
