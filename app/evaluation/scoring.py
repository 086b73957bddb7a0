"""From rankings to figures: trec_eval's measures per query, their means with bootstrap intervals, paired differences.

Intervals are percentiles of resampled queries; every variant is resampled alike, so that differences stay paired.
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
    """(1 + resamples, variants) means: those of the queries as they are, then those of each resample."""

    means: np.ndarray

    def estimate(self, variant: int, *, minus: int | None = None) -> Estimate:
        """Of a variant's mean, or of its difference to another one's."""
        column = self.means[:, variant] - (0.0 if minus is None else self.means[:, minus])
        low, high = np.percentile(column[1:], [_TAIL, 100 - _TAIL])
        return Estimate(float(column[0]), float(low), float(high))


def score_ranking(documents: Sequence[str], grades: Mapping[str, int]) -> dict[Measure, float]:
    """Of one query: the ids of the documents found, the best first, without repetitions."""
    judged = [ir_measures.Qrel(_QUERY, document, grade) for document, grade in grades.items()]
    # trec_eval orders by score and then by id: falling scores keep the order as it is.
    found = [ir_measures.ScoredDoc(_QUERY, document, -float(rank)) for rank, document in enumerate(documents)]
    scores = dict.fromkeys(Measure, 0.0)  # also what a query with nothing found gets
    scores |= {_MEASURES[each.measure]: each.value for each in ir_measures.iter_calc(list(_MEASURES), judged, found)}
    return scores


def resample(values: Sequence[Sequence[float]], *, seed: int, resamples: int = RESAMPLES) -> Replicates:
    """`values`: (queries, variants), at least one query. Equal seeds and numbers of queries are resampled alike."""
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
    """Every variant but the baseline against it. `values[measure]`: (queries, variants)."""
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
    """By the documents of another collection; what it lacks counts as never found. Of two that are one, the better."""
    grades: dict[str, int] = {}
    for document, grade in query.grades.items():
        other = counterparts.get(document, document)
        grades[other] = max(grade, grades.get(other, 0))
    return grades


def variant_labels(variants: Sequence[Variant]) -> list[str]:
    """What tells each from the others; what all have in common is left out."""
    told = [_parts(variant) for variant in variants]
    telling = {key for key in told[0] if len({parts[key] for parts in told}) > 1} if told else set()
    if not telling:
        telling = {"mode", "steps"}
    return [" · ".join(text for key, text in parts.items() if key in telling and text) for parts in told]


def _parts(variant: Variant) -> dict[str, str]:
    instruction = variant.instruction
    return {
        "collection": variant.collection,
        "mode": variant.mode.value,
        "steps": "" if variant.steps is None else f"K {variant.steps}",
        "instruction": "" if instruction is None else f"instruction {instruction}",
    }
