"""Scores rankings: trec_eval's measures per query, means with bootstrap intervals, and paired differences.

Intervals are percentiles of resampled queries. All variants use the same resamples, so that differences are paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ir_measures
import numpy as np
from ir_measures import RR, Judged, R, nDCG

from app.types.evaluation import Difference, Estimate, JudgedQuery, Measure, Variant

RESAMPLES = 2000
_CHUNK = 200  # resamples drawn at once: 200 × 10,000 queries are 16 MB
_TAIL = 2.5
_MEASURES = {
    nDCG @ 10: Measure.NDCG_10,
    R @ 10: Measure.RECALL_10,
    R @ 100: Measure.RECALL_100,
    RR @ 10: Measure.MRR_10,
    Judged @ 10: Measure.JUDGED_10,
}
_QUERY = "q"


@dataclass(frozen=True, slots=True)
class Replicates:
    """Bootstrap means of the variants. `means`: (1 + resamples, variants); row 0 is the mean over the original queries,
    then one row per resample."""

    means: np.ndarray

    def estimate(self, variant: int, *, minus: int | None = None) -> Estimate:
        """Estimates a variant's mean, or its difference to the variant `minus`."""
        column = self.means[:, variant] - (0.0 if minus is None else self.means[:, minus])
        low, high = np.percentile(column[1:], [_TAIL, 100 - _TAIL])
        return Estimate(float(column[0]), float(low), float(high))


def score_ranking(documents: Sequence[str], grades: Mapping[str, int]) -> dict[Measure, float]:
    """Scores one query. documents: distinct ids, best first. grades: by document id."""
    judged = [ir_measures.Qrel(_QUERY, document, grade) for document, grade in grades.items()]
    # trec_eval sorts by score, then id; descending scores keep the given order.
    found = [ir_measures.ScoredDoc(_QUERY, document, -float(rank)) for rank, document in enumerate(documents)]
    scores = dict.fromkeys(Measure, 0.0)  # stays for a query without results
    calculated = ir_measures.iter_calc(list(_MEASURES), judged, found)
    scores |= {_MEASURES[metric.measure]: metric.value for metric in calculated}
    return scores


def resample(values: Sequence[Sequence[float]], *, seed: int, resamples: int = RESAMPLES) -> Replicates:
    """Bootstrap over queries. values: (queries, variants), at least one query. Deterministic for a seed and number of
    queries."""
    scores = np.asarray(values, dtype=np.float64)
    count = len(scores)
    rng = np.random.default_rng(seed)
    parts = [scores.mean(axis=0, keepdims=True)]
    for start in range(0, resamples, _CHUNK):
        drawn = rng.multinomial(count, np.full(count, 1 / count), size=min(_CHUNK, resamples - start))
        parts.append(drawn @ scores / count)
    return Replicates(np.concatenate(parts))


def differences(
    values: Mapping[Measure, Sequence[Sequence[float]]], labels: Sequence[str], *, baseline: int, seed: int
) -> list[Difference]:
    """Compares every other variant with the baseline. values[measure]: (queries, variants)."""
    found = []
    for measure, rows in values.items():
        replicates, scores = resample(rows, seed=seed), np.asarray(rows)
        for variant, label in enumerate(labels):
            if variant != baseline:
                gains = scores[:, variant] - scores[:, baseline]
                better, worse = int((gains > 1e-9).sum()), int((gains < -1e-9).sum())
                estimate = replicates.estimate(variant, minus=baseline)
                found.append(Difference(label, measure, estimate, better, len(gains) - better - worse, worse))
    return found


def grades_in(query: JudgedQuery, counterparts: Mapping[str, str]) -> dict[str, int]:
    """Translates grades to the documents of another collection. If two documents have one counterpart, the higher grade
    counts. A document without a counterpart keeps its id there, so it counts as never found."""
    grades: dict[str, int] = {}
    for document, grade in query.grades.items():
        other = counterparts.get(document, document)
        grades[other] = max(grade, grades.get(other, 0))
    return grades


def variant_labels(variants: Sequence[Variant]) -> list[str]:
    """Labels of the settings in which the variants differ; mode and steps if they do not differ."""
    settings = [_parts(variant) for variant in variants]
    differing = {key for key in settings[0] if len({parts[key] for parts in settings}) > 1} if settings else set()
    if not differing:
        differing = {"mode", "steps"}
    return [" · ".join(text for key, text in parts.items() if key in differing and text) for parts in settings]


def _parts(variant: Variant) -> dict[str, str]:
    instruction = variant.instruction
    return {
        "collection": variant.collection,
        "mode": variant.mode.value,
        "steps": "" if variant.steps is None else f"K {variant.steps}",
        "instruction": "" if instruction is None else f"instruction {instruction}",
    }
