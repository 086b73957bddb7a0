"""Measures against hand-computed values, intervals against SciPy's bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from app.evaluation.scoring import differences, grades_in, resample, score_ranking, variant_labels
from app.types.evaluation import InstructionChoice, InstructionPolicy, JudgedQuery, Measure, Variant
from app.types.search import SearchMode


def test_a_ranking_is_scored_as_by_hand() -> None:
    grades = {"a": 3, "b": 1, "c": 0, "d": 2}
    scores = score_ranking(["x", "a", "c", "b"], grades)
    gain = 3 / math.log2(3) + 1 / math.log2(5)
    ideal = 3 + 2 / math.log2(3) + 1 / math.log2(4)
    assert scores[Measure.NDCG_10] == pytest.approx(gain / ideal)
    assert scores[Measure.RECALL_10] == pytest.approx(2 / 3)
    assert scores[Measure.MRR_10] == pytest.approx(1 / 2)
    assert scores[Measure.JUDGED_10] == pytest.approx(3 / 4)


def test_places_after_the_tenth_count_only_where_they_should() -> None:
    found = [f"x{number}" for number in range(10)] + ["a"]
    scores = score_ranking(found, {"a": 1})
    assert {each for each, value in scores.items() if value} == {Measure.RECALL_100}
    assert scores[Measure.RECALL_100] == 1


def test_the_order_of_the_ranking_counts_and_not_that_of_ids() -> None:
    for found in (["a", "b"], ["b", "a"]):
        assert score_ranking(found, {found[0]: 1})[Measure.NDCG_10] == 1
        assert score_ranking(found, {found[1]: 1})[Measure.MRR_10] == 0.5


def test_nothing_found_scores_nothing() -> None:
    assert score_ranking([], {"a": 1}) == dict.fromkeys(Measure, 0.0)


@pytest.mark.parametrize("size", [30, 400])
def test_intervals_agree_with_scipys(size: int) -> None:
    scores = np.random.default_rng(3).beta(1, 2, size=(size, 2))
    found = resample(scores.tolist(), seed=1, resamples=10_000)
    for estimate, sample in (
        (found.estimate(0), scores[:, 0]),
        (found.estimate(1, minus=0), scores[:, 1] - scores[:, 0]),
    ):
        wanted = bootstrap((sample,), np.mean, method="percentile", n_resamples=10_000, rng=2).confidence_interval
        assert estimate.value == pytest.approx(sample.mean())
        assert estimate.low == pytest.approx(wanted.low, abs=0.02 * sample.std())
        assert estimate.high == pytest.approx(wanted.high, abs=0.02 * sample.std())


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40),
    st.integers(0, 10),
)
def test_intervals_hold_their_mean_and_come_out_alike(values: list[tuple[float, float]], seed: int) -> None:
    first, again = (resample(values, seed=seed, resamples=300).estimate(0) for _ in range(2))
    assert first == again
    lowest, highest = min(low for low, _ in values), max(low for low, _ in values)
    assert lowest - 1e-9 <= first.low <= first.high <= highest + 1e-9


def test_a_steady_gain_is_sure_though_queries_differ_widely() -> None:
    base = np.linspace(0, 0.9, 40)
    values = {Measure.NDCG_10: np.stack([base, base + 0.05, base], axis=1).tolist()}
    better, same = differences(values, ["one", "two", "three"], baseline=0, seed=0)
    assert (better.label, better.better, better.equal, better.worse) == ("two", 40, 0, 0)
    assert better.estimate.excludes_zero
    assert better.estimate.low == pytest.approx(0.05)
    assert (same.better, same.equal, same.worse) == (0, 40, 0)
    assert not same.estimate.excludes_zero
    overlapping = resample(values[Measure.NDCG_10], seed=0)
    assert overlapping.estimate(0).high > overlapping.estimate(1).low


def test_what_another_collection_lacks_stays_out_of_reach() -> None:
    query = JudgedQuery("card", "", {"a": 1, "b": 3, "c": 2})
    assert grades_in(query, {"a": "A", "b": "A"}) == {"A": 3, "c": 2}


def test_labels_tell_what_differs() -> None:
    judged = InstructionChoice()
    five, twenty = (Variant("library", SearchMode.DENSE, steps, judged) for steps in (5, 20))
    sparse = Variant("library", SearchMode.SPARSE)
    assert variant_labels([five, twenty, sparse]) == [
        "dense · K 5 · instruction judged",
        "dense · K 20 · instruction judged",
        "sparse",
    ]
    assert variant_labels([five, twenty]) == ["K 5", "K 20"]
    assert variant_labels([five]) == ["dense · K 5"]
    lens = InstructionChoice(InstructionPolicy.LENS, "feeling")
    assert variant_labels([five, Variant("library", SearchMode.DENSE, 5, lens)])[1] == "instruction lens:feeling"
