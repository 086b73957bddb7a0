"""Chooses weights of legs by judged queries, and says by cross-validation whether they are better. Knows no catalog.

A query's ranking under all weights of a grid is computed at once, from what each leg found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import cast

import numpy as np

from app.search.fusion import WEIGHTS_AFTER_FEEDBACK, leg_shares, share_weights
from app.types.documents import ScoredPoint
from app.types.search import Leg
from app.types.weights import CrossValidation

LEGS = (Leg.DENSE, Leg.PLAIN, Leg.FEEDBACK, Leg.SPARSE)
STEPS = 8  # of the grid, on which the defaults lie
FOLDS = 5
DEPTH = 10

Legs = Mapping[Leg, Sequence[ScoredPoint]]


@cache
def grid() -> tuple[Mapping[Leg, float], ...]:
    """All weights in eighths that add up to 1, those nearest to the defaults first. Feedback has at least one, since
    the others may find nothing: the plain leg without an instruction, words in another language."""
    parts = [
        (dense, plain, feedback, STEPS - dense - plain - feedback)
        for dense in range(STEPS + 1)
        for plain in range(STEPS + 1 - dense)
        for feedback in range(1, STEPS + 1 - dense - plain)
    ]
    own = [WEIGHTS_AFTER_FEEDBACK.get(leg, 0.0) * STEPS for leg in LEGS]
    parts.sort(key=lambda each: sum(abs(one - other) for one, other in zip(each, own, strict=True)))
    return tuple({leg: part / STEPS for leg, part in zip(LEGS, each, strict=True)} for each in parts)


def ndcg_by_weights(legs: Legs, grades: Mapping[str, int], *, judged_alone: bool) -> np.ndarray:
    """(W,) nDCG@10 of documents, each at the place of its best chunk, under each of the weights of the grid.

    With `judged_alone` documents that nobody judged are left out of the ranking: thumbs are given to what was shown, so
    that another order must not be blamed for what it shows instead.
    """
    points, shares, lowest = leg_shares(legs)
    documents = [_document_of(point) for point in points]
    names = sorted({each for each in documents if not judged_alone or each in grades})
    ideal = _discounted(np.sort(np.array(list(grades.values()), dtype=float))[::-1][:DEPTH])
    if not names or ideal <= 0:
        return np.zeros(len(grid()))
    weights = np.zeros((len(LEGS), len(grid())))
    for at, each in enumerate(grid()):
        found = [leg for leg in each if each[leg] and leg in shares]
        for leg, weight in share_weights(each, found).items():
            weights[LEGS.index(leg), at] = weight
    table = np.array([[shares.get(leg, {}).get(point.id, lowest.get(leg, 0.0)) for leg in LEGS] for point in points])
    totals = table @ weights  # (points, W)
    best = np.full((len(names), totals.shape[1]), -np.inf)
    place = {name: at for at, name in enumerate(names)}
    for name, row in zip(documents, totals, strict=True):
        if name in place:
            np.maximum(best[place[name]], row, out=best[place[name]])
    order = np.argsort(-best, axis=0, kind="stable")[:DEPTH]  # (DEPTH, W)
    gains = np.array([float(grades.get(name, 0)) for name in names])[order]
    return _discounted(gains) / ideal


def _discounted(gains: np.ndarray) -> np.ndarray:
    """DCG along the first axis."""
    discounts = 1 / np.log2(np.arange(2, len(gains) + 2))
    return discounts @ gains


def _document_of(point: ScoredPoint) -> str:
    return str(cast("Mapping[str, object]", point.payload["metadata"])["document_id"])


def choose(scores: np.ndarray) -> int:
    """Of the weights (queries, W), in the order of the grid: the nearest to the defaults of those whose gain over
    them is at most one standard error below the best one's."""
    gains = scores - scores[:, :1]
    means = gains.mean(axis=0)
    best = int(means.argmax())
    least = means[best] - standard_error(gains[:, best])
    return int(np.flatnonzero((means >= least) & (means > 0))[0]) if means[best] > 0 and least > 0 else 0


def cross_validate(scores: np.ndarray, queries: Sequence[str], *, judgements: int) -> CrossValidation:
    """scores: (queries, W), the defaults first. Wordings of one text stay in one fold."""
    texts = sorted(set(queries), key=place_of)
    fold_of = {text: at % min(FOLDS, len(texts)) for at, text in enumerate(texts)}
    folds = np.array([fold_of[text] for text in queries])
    tuned = np.empty(len(queries))
    for fold in set(folds.tolist()):
        held_out = folds == fold
        tuned[held_out] = scores[held_out, choose(scores[~held_out])]
    return CrossValidation(
        queries=len(queries),
        judgements=judgements,
        folds=len(set(folds.tolist())),
        default_ndcg=float(scores[:, 0].mean()),
        tuned_ndcg=float(tuned.mean()),
        standard_error=standard_error(tuned - scores[:, 0]),
    )


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def place_of(text: str) -> str:
    """An order that has nothing to do with the queries."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
