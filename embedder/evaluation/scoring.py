"""Scores with intervals, and paired differences of scores, from a task's outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from embedder.evaluation.bootstrap import (
    BootstrapEstimate,
    draw_weights,
    estimate,
    harmonic_mean,
    means,
    spearman,
    v_measures,
)
from embedder.evaluation.outcomes import Outcome, Setting, Stratum, TaskMeasure, TaskOutcomes

STEP_DIFFERENCES = ((5, 1), (20, 10), (20, 1))
LESS_DOCUMENT_STEPS = (1, 5)
_Leaves = Mapping[tuple[str, str, Setting], np.ndarray]  # (stratum, metric, setting) -> replicates


@dataclass(frozen=True, slots=True)
class Score:
    measure: str
    metric: str
    setting: Setting
    estimate: BootstrapEstimate


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The difference of a measure between two settings. `setting` minus `other` on the same resamples. kind: steps,
    document_steps or baseline."""

    measure: str
    metric: str
    kind: str
    setting: Setting
    other: Setting
    estimate: BootstrapEstimate


@dataclass(frozen=True, slots=True)
class Scores:
    scores: tuple[Score, ...]
    differences: tuple[PairedDifference, ...]


def score(outcomes: TaskOutcomes, *, model: str, baseline: str, resamples: int, seed: int) -> Scores:
    """Scores every measure in every setting that all its strata have; computes differences for the system `model`."""
    leaves = _replicate(outcomes, resamples=resamples, seed=seed)
    scores: list[Score] = []
    differences: list[PairedDifference] = []
    for measure in outcomes.measures:
        replicates = _of_measure(measure, leaves)
        scores += [
            Score(measure.name, measure.metric, setting, estimate(values)) for setting, values in replicates.items()
        ]
        for kind, pairs in (
            ("steps", _step_pairs(replicates, model)),
            ("document_steps", _document_step_pairs(replicates, model)),
            ("baseline", _baseline_pairs(replicates, model, baseline)),
        ):
            differences += [
                PairedDifference(
                    measure.name,
                    measure.metric,
                    kind,
                    setting,
                    other,
                    estimate(replicates[setting] - replicates[other]),
                )
                for setting, other in pairs
            ]
    return Scores(tuple(scores), tuple(differences))


def compare(
    first: TaskOutcomes, other: TaskOutcomes, *, models: tuple[str, str], resamples: int, seed: int
) -> list[PairedDifference]:
    """`other` minus `first` for every setting, for measures whose strata have the same items in both."""
    leaves = _replicate(first, resamples=resamples, seed=seed), _replicate(other, resamples=resamples, seed=seed)
    differences = []
    for measure in first.measures:
        names = {name for group in measure.groups for name in group}
        if any(name not in other.strata or other.strata[name].items != first.strata[name].items for name in names):
            continue
        before, after = (_of_measure(measure, each) for each in leaves)
        for setting, values in before.items():
            same = Setting(models[1], setting.condition, setting.query_steps, setting.document_steps)
            if setting.system == models[0] and same in after:
                change = estimate(after[same] - values)
                differences.append(PairedDifference(measure.name, measure.metric, "model", same, setting, change))
    return differences


def replicates_of(
    outcomes: TaskOutcomes, *, resamples: int, seed: int
) -> dict[tuple[str, str], dict[Setting, np.ndarray]]:
    """(measure, metric) -> setting -> replicates (1 + resamples,), ×100; the first is the score itself.

    Equal items are drawn alike, so replicates of several files can be subtracted and averaged.
    """
    leaves = _replicate(outcomes, resamples=resamples, seed=seed)
    return {(each.name, each.metric): _of_measure(each, leaves) for each in outcomes.measures}


def _replicate(outcomes: TaskOutcomes, *, resamples: int, seed: int) -> _Leaves:
    statistics = {
        (name, each.metric): each.statistic for each in outcomes.measures for group in each.groups for name in group
    }
    by_stratum: dict[str, list[Outcome]] = {}
    for outcome in outcomes.outcomes:
        by_stratum.setdefault(outcome.stratum, []).append(outcome)
    leaves = {}
    for name, of_stratum in by_stratum.items():
        stratum = outcomes.strata[name]
        weights = draw_weights(stratum.items, stratum.size, resamples=resamples, seed=seed)
        for each in of_stratum:
            statistic = _STATISTICS[statistics[name, each.metric]]
            leaves[name, each.metric, each.setting] = 100 * statistic(weights, each.values, stratum)
    return leaves


def _of_measure(measure: TaskMeasure, leaves: _Leaves) -> dict[Setting, np.ndarray]:
    names = {name for group in measure.groups for name in group}
    settings = [s for (name, metric, s) in leaves if metric == measure.metric and name == measure.groups[0][0]]
    return {
        setting: np.mean(
            [harmonic_mean([leaves[name, measure.metric, setting] for name in group]) for group in measure.groups],
            axis=0,
        )
        for setting in settings
        if all((name, measure.metric, setting) in leaves for name in names)
    }


def _gold(stratum: Stratum) -> np.ndarray:
    if stratum.gold is None:
        raise ValueError(f"{stratum.name} has no gold values to compare with.")
    return stratum.gold


_STATISTICS: Mapping[str, Callable[[np.ndarray, np.ndarray, Stratum], np.ndarray]] = {
    "mean": lambda weights, values, _: means(weights, values),
    "spearman": lambda weights, values, stratum: spearman(weights, values, _gold(stratum)),
    "v_measure": lambda weights, values, stratum: v_measures(weights, values, _gold(stratum)),
}

_Pairs = list[tuple[Setting, Setting]]


def _step_pairs(replicates: Mapping[Setting, np.ndarray], model: str) -> _Pairs:
    """Pairs of the same model with more and with fewer steps: on both sides, and only for queries, with the same
    document steps."""
    pairs = []
    for more, fewer in STEP_DIFFERENCES:
        for each in replicates:
            if each.system != model or each.query_steps != more:
                continue
            both = Setting(model, each.condition, fewer, fewer)
            if each.document_steps == more and both in replicates:
                pairs.append((each, both))
            queries = Setting(model, each.condition, fewer, each.document_steps)
            if each.document_steps != fewer and queries in replicates:
                pairs.append((each, queries))
    return pairs


def _document_step_pairs(replicates: Mapping[Setting, np.ndarray], model: str) -> _Pairs:
    """Pairs of settings with few document steps and with the most measured, both with the most query steps."""
    ours = [each for each in replicates if each.system == model]
    most = max((each.query_steps or 0 for each in ours), default=0)
    pairs = []
    for condition in dict.fromkeys(each.condition for each in ours):
        at_most = {
            each.document_steps or 0: each for each in ours if (each.condition, each.query_steps) == (condition, most)
        }
        if not at_most:
            continue
        full = at_most[max(at_most)]
        pairs += [
            (at_most[steps], full) for steps in LESS_DOCUMENT_STEPS if steps in at_most and at_most[steps] != full
        ]
    return pairs


def _baseline_pairs(replicates: Mapping[Setting, np.ndarray], model: str, baseline: str) -> _Pairs:
    """Pairs of each setting of the model and the baseline's best setting."""
    others = [each for each in replicates if each.system == baseline]
    if not others:
        return []
    best = max(others, key=lambda each: float(replicates[each][0]))
    return [(each, best) for each in replicates if each.system == model]
