"""Words that are to count more or less: which way a query's vector turns, how far at most, and what BM25 is asked."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.search.steering import FULL_BIAS, MOST_ANGLE, WORD_ANGLE, steer, steer_words

QUERY, WORD = [1.0, 0.0, 0.0], [0.6, 0.8, 0.0]


def cosine(one: list[float], other: list[float]) -> float:
    return float(np.dot(one, other) / np.linalg.norm(one) / np.linalg.norm(other))


def test_more_comes_nearer_to_the_word_and_less_goes_away_by_the_same_angle() -> None:
    more, less = steer(QUERY, [(FULL_BIAS, WORD)]), steer(QUERY, [(-10.0, WORD)])
    assert cosine(more, WORD) > cosine(QUERY, WORD) > cosine(less, WORD)
    for each in (more, less):
        assert math.acos(cosine(each, QUERY)) == pytest.approx(WORD_ANGLE)
        assert np.linalg.norm(each) == pytest.approx(1)
    assert math.acos(cosine(steer(QUERY, [(FULL_BIAS / 2, WORD)]), QUERY)) == pytest.approx(WORD_ANGLE / 2)


def test_nothing_turns_without_words_or_by_what_the_query_says_already() -> None:
    assert steer(QUERY, []) == QUERY
    assert steer(QUERY, [(5.0, [2.0, 0.0, 0.0])]) == QUERY
    assert steer(QUERY, [(5.0, WORD), (-5.0, WORD)]) == QUERY


VECTORS = st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda each: np.linalg.norm(each) > 0.01)


@settings(deadline=None)
@given(VECTORS, st.lists(st.tuples(st.floats(-10, 10), VECTORS), max_size=6))
def test_however_many_words_what_is_asked_stays_in_sight(
    query: list[float], words: list[tuple[float, list[float]]]
) -> None:
    assert cosine(steer(query, words), query) >= math.cos(MOST_ANGLE) - 1e-6


def test_words_are_added_to_what_is_searched_by_words_or_left_out() -> None:
    assert steer_words("Prices, when demand falls", {"inflation": 5, "DEMAND": -10}) == "Prices, when  falls inflation"
    assert steer_words("demand", {"demand": -10}) == "demand"
    assert steer_words("demand on demands", {"demands": -10}) == "demand on "
