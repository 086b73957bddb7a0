"""The figures of `gircse eval`: statistics against libraries and hand-made numbers, pairing, halves."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import v_measure_score

from embedder.evaluation.bootstrap import draw_weights, estimate, harmonic_mean, means, spearman, v_measures
from embedder.evaluation.data import in_half, is_tuning, spread
from embedder.evaluation.outcomes import Setting, TaskMeasure, TaskOutcomes, pack, unpack
from embedder.evaluation.scoring import score
from embedder.evaluation.tasks.similarity import choose_pairs
from embedder.evaluation.tasks.triplets import pair_up


class TestStatistics:
    def test_harmonic_mean_by_hand(self):
        found = harmonic_mean([np.array([0.5, 0.0, 1.0]), np.array([1.0, 1.0, 1.0])])
        assert found == pytest.approx([2 / 3, 0, 1])

    def test_a_measure_is_the_mean_over_pairs_of_harmonic_means(self):
        found = TaskOutcomes(
            measures=[TaskMeasure("triplets.all", "success", "mean", (("a|b", "b|a"), ("c|d", "d|c")))]
        )
        setting = Setting("model", "both", 5, 5)
        for name, values in {"a|b": [1, 0], "b|a": [1, 1], "c|d": [1, 1], "d|c": [1, 1]}.items():
            found.add_stratum(name, [f"{name}{i}" for i in range(2)])
            found.add(name, "success", setting, np.array(values))
        (only,) = score(found, model="model", baseline="MiniLM", resamples=200, seed=0).scores
        assert only.estimate.value == pytest.approx(100 * (2 / 3 + 1) / 2)
        assert (only.estimate.low, only.estimate.high) == pytest.approx((50, 100))

    @settings(max_examples=10, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=8, max_size=40), st.integers(0, 99))
    def test_spearman_equals_scipy_on_every_resample(self, pairs, seed):
        values, gold = np.array(pairs, dtype=float).T
        weights = draw_weights("items", len(pairs), resamples=5, seed=seed)
        for row, found in zip(weights, spearman(weights, values, gold), strict=True):
            drawn = np.repeat(np.arange(len(pairs)), row.astype(int))
            if len(set(values[drawn])) > 1 and len(set(gold[drawn])) > 1:
                assert found == pytest.approx(spearmanr(values[drawn], gold[drawn]).statistic, abs=1e-6)

    @settings(max_examples=10, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=2, max_size=40), st.integers(0, 99))
    def test_v_measure_equals_scikit_learn_on_every_resample(self, pairs, seed):
        clusters, gold = np.array(pairs).T
        weights = draw_weights("items", len(pairs), resamples=5, seed=seed)
        for row, found in zip(weights, v_measures(weights, clusters[:, None], gold), strict=True):
            drawn = np.repeat(np.arange(len(pairs)), row.astype(int))
            assert found == pytest.approx(v_measure_score(gold[drawn], clusters[drawn]), abs=1e-6)

    def test_resamples_depend_on_seed_and_items_alone(self):
        draw = {key: draw_weights(key[0], 30, resamples=20, seed=key[1]) for key in [("a", 0), ("a", 1), ("b", 0)]}
        assert np.array_equal(draw["a", 0], draw_weights("a", 30, resamples=20, seed=0))
        assert not np.array_equal(draw["a", 0], draw["a", 1])
        assert not np.array_equal(draw["a", 0], draw["b", 0])
        assert (draw["a", 0].sum(axis=1) == 30).all()

    def test_interval_covers_a_mean_as_theory_says(self):
        values = np.random.default_rng(3).normal(size=400)
        found = estimate(means(draw_weights("x", 400, resamples=2000, seed=0), values))
        assert found.value == pytest.approx(values.mean())
        assert found.high - found.low == pytest.approx(2 * 1.96 * values.std() / math.sqrt(400), rel=0.1)

    def test_equal_outcomes_differ_by_exactly_nothing(self):
        found = TaskOutcomes(measures=[TaskMeasure("m", "accuracy", "mean", (("s",),))])
        found.add_stratum("s", [str(i) for i in range(50)])
        values = np.arange(50) % 3 == 0
        for k in (1, 5):
            found.add("s", "accuracy", Setting("model", "none", k, k), values)
        found.add("s", "accuracy", Setting("MiniLM", "none"), ~values)
        scores = score(found, model="model", baseline="MiniLM", resamples=100, seed=0)
        steps = next(each for each in scores.differences if each.kind == "steps")
        assert (steps.estimate.value, steps.estimate.low, steps.estimate.high) == (0, 0, 0)
        assert not steps.estimate.excludes_zero
        baseline = next(each for each in scores.differences if each.kind == "baseline")
        assert baseline.estimate.value == pytest.approx(100 * (17 - 33) / 50)

    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(-1, 1, width=32)), min_size=1, max_size=30))
    def test_packed_outcomes_come_back(self, values):
        assert np.array_equal(unpack(json.loads(json.dumps(pack(np.array(values))))), np.array(values))


class TestRows:
    @settings(max_examples=30, deadline=None)
    @given(st.text(min_size=1, max_size=20))
    def test_every_text_is_in_one_half(self, text):
        assert in_half(text, "tune") != in_half(text, "report")
        assert in_half(text, "all")

    def test_halves_are_fixed_for_ever(self):
        """Their SHA-1 ends in 50, 95, 6b and 24: another rule would move reported items into the tuning half."""
        assert [is_tuning(word) for word in ("cat", "bee", "pig", "hen")] == [True, False, False, True]

    def test_thinning_keeps_even_distances(self):
        assert spread(range(10), 4) == [0, 2, 5, 7]
        assert spread(range(3), 4) == [0, 1, 2]

    def test_dev_files_are_for_tuning_and_test_files_for_reporting(self):
        rows = [{"a": "cat"}, {"a": "bee"}]
        chosen = {
            (name, half): len(choose_pairs(rows, name, half))
            for name in ("x.dev", "x.test", "x")
            for half in ("tune", "report")
        }
        assert chosen == {
            ("x.dev", "tune"): 2, ("x.dev", "report"): 0, ("x.test", "tune"): 0, ("x.test", "report"): 2,
            ("x", "tune"): 1, ("x", "report"): 1,
        }  # fmt: skip

    def test_both_directions_of_two_aspects_are_a_pair(self):
        assert pair_up(["s:a|b", "s:b|a", "s:c|a"]) == {"s:a|b": ("s:a|b", "s:b|a"), "s:a|c": ("s:c|a",)}
