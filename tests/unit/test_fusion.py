"""Two rankings become one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.search.fusion import fuse, rank_in_legs, word_share
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


def test_the_sum_is_that_of_cosines_and_word_shares() -> None:
    dense = [point("a", 0.8), point("b", 0.6), point("c", 0.4)]
    sparse = [point("d", 12.0), point("b", 9.0)]
    fused = {each.id: each for each in fuse(both(dense, sparse), terms=4, weights=weighted(0.6))}
    assert fused["a"].score == pytest.approx(0.6 * 0.8)
    assert fused["b"].score == pytest.approx(0.6 * 0.6 + 0.4 * word_share(9.0, 4))
    assert fused["c"].score == pytest.approx(0.6 * 0.4)
    assert fused["d"].score == pytest.approx(0.6 * 0.4 + 0.4 * word_share(12.0, 4))  # its cosine is at most that of c
    assert list(fused) == ["b", "d", "a", "c"]
    legs = {each.point.id: each.legs for each in rank_in_legs(list(fused.values()), both(dense, sparse))}
    assert legs["b"] == (LegRank(Leg.DENSE, 2, 0.6), LegRank(Leg.SPARSE, 2, 9.0))
    assert legs["a"] == (LegRank(Leg.DENSE, 1, 0.8),)
    assert legs["d"] == (LegRank(Leg.SPARSE, 1, 12.0),)
    assert fused["d"].payload == {"page_content": "d"}


@given(BM25, BM25, st.integers(1, 1024), st.integers(1, 1024))
def test_a_word_share_grows_with_the_score_and_shrinks_with_the_terms(
    one: float, other: float, terms: int, more: int
) -> None:
    lower, higher = sorted((one, other))
    assert 0 < word_share(lower, terms) <= word_share(higher, terms) <= 1
    assert word_share(one, terms + more) < word_share(one, terms)


def test_few_of_many_words_count_little_although_no_passage_has_more() -> None:
    """The best passage has two common words of a question of ten; a passage of the same meaning has none."""
    dense, sparse = [point("means", 0.6), point("says", 0.45)], [point("says", 6.0)]
    assert [each.id for each in fuse(both(dense, sparse), terms=10)] == ["means", "says"]
    assert [each.id for each in fuse(both(dense, [point("says", 30.0)]), terms=10)] == ["says", "means"]


def test_two_empty_legs_find_nothing() -> None:
    assert fuse({Leg.DENSE: [], Leg.PLAIN: [], Leg.SPARSE: []}, terms=1) == []


@given(leg_of(COSINE), leg_of(BM25), st.floats(0, 1))
def test_every_candidate_comes_once_best_first_with_its_legs(
    dense: list[ScoredPoint], sparse: list[ScoredPoint], weight: float
) -> None:
    fused = fuse(both(dense, sparse), terms=3, weights=weighted(weight))
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
def test_a_leg_alone_keeps_its_order_and_has_the_whole_weight(found: list[ScoredPoint], leg: Leg) -> None:
    if leg is Leg.SPARSE:
        found = [replace(each, score=each.score + 2) for each in found]
    fused = fuse({each: found if each is leg else [] for each in (Leg.DENSE, Leg.PLAIN, Leg.SPARSE)}, terms=3)
    scores = {each.id: word_share(each.score, 3) if leg is Leg.SPARSE else each.score for each in found}
    assert {each.id: each.score for each in fused} == {name: pytest.approx(max(0, s)) for name, s in scores.items()}
    assert [scores[each.id] for each in fused] == sorted(scores.values(), reverse=True)


@given(leg_of(COSINE), leg_of(BM25), st.floats(0.05, 0.95))
def test_what_is_better_in_both_legs_is_better(
    dense: list[ScoredPoint], sparse: list[ScoredPoint], weight: float
) -> None:
    cosines, words = ({each.id: each.score for each in found} for found in (dense, sparse))
    scores = {each.id: each.score for each in fuse(both(dense, sparse), terms=3, weights=weighted(weight))}
    for one in cosines.keys() & words.keys():
        for other in cosines.keys() & words.keys():
            if cosines[one] >= cosines[other] and words[one] >= words[other]:
                assert scores[one] >= scores[other] - 1e-9


def test_a_leg_of_vectors_takes_the_weight_of_the_other_one() -> None:
    """Words weigh as much whether there are two legs of vectors or one."""
    dense, sparse = [point("a", 0.8), point("b", 0.4)], [point("b", 3.0)]
    weights = {Leg.DENSE: 0.5, Leg.PLAIN: 0.3, Leg.SPARSE: 0.2}
    alone = {each.id: each.score for each in fuse({Leg.DENSE: dense, Leg.SPARSE: sparse}, terms=1, weights=weights)}
    words = 0.2 * word_share(3.0, 1)
    assert alone == {"a": pytest.approx(0.8 * 0.8), "b": pytest.approx(0.8 * 0.4 + words)}
    three = {Leg.DENSE: dense, Leg.PLAIN: [point("b", 0.9)], Leg.SPARSE: sparse}
    found = {each.id: each.score for each in fuse(three, terms=1, weights=weights)}
    assert found == {
        "a": pytest.approx(0.5 * 0.8 + 0.3 * 0.9),
        "b": pytest.approx(0.5 * 0.4 + 0.3 * 0.9 + words),
    }


def test_a_leg_without_a_weight_only_tells_where_it_had_a_point() -> None:
    legs = {Leg.DENSE: [point("a", 0.9), point("b", 0.1)], Leg.FEEDBACK: [point("b", 0.7)], Leg.SPARSE: []}
    fused = fuse(legs, terms=1, weights={Leg.FEEDBACK: 0.75, Leg.SPARSE: 0.25})
    assert [(each.id, each.score) for each in fused] == [("a", pytest.approx(0.7)), ("b", pytest.approx(0.7))]
    assert rank_in_legs(fused, legs)[1].legs == (LegRank(Leg.DENSE, 2, 0.1), LegRank(Leg.FEEDBACK, 1, 0.7))
