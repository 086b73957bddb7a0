"""Chooses fusion weights by judged queries and tests them by cross-validation. Knows no catalog.

Computes a query's rankings for all weights of a grid at once, from the results of each leg.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import cast

import numpy as np

from app.search.fusion import WEIGHTS, leg_shares, share_weights
from app.types.documents import ScoredPoint
from app.types.search import Leg
from app.types.weights import CrossValidation

LEGS = (Leg.DENSE, Leg.PLAIN, Leg.FEEDBACK, Leg.SPARSE)
STEPS = 10  # of the grid: weights are multiples of 1/STEPS
FOLDS = 5
DEPTH = 10

Legs = Mapping[Leg, Sequence[ScoredPoint]]


@cache
def grid() -> tuple[Mapping[Leg, float], ...]:
    """The default weights, then all weights in tenths with sum 1, those nearest to the defaults first.

    Legs of vectors have at least one tenth together: the sparse leg may be empty, as for a query in another language.
    """
    parts = [
        (dense, plain, feedback, STEPS - dense - plain - feedback)
        for dense in range(STEPS + 1)
        for plain in range(STEPS + 1 - dense)
        for feedback in range(STEPS + 1 - dense - plain)
        if dense or feedback
    ]
    defaults = {leg: WEIGHTS.get(leg, 0.0) for leg in LEGS}
    others = [{leg: part / STEPS for leg, part in zip(LEGS, tenths, strict=True)} for tenths in parts]
    others.sort(key=lambda weights: sum(abs(weights[leg] - defaults[leg]) for leg in LEGS))
    return (defaults, *(weights for weights in others if weights != defaults))


def ndcg_by_weights(legs: Legs, grades: Mapping[str, int], *, terms: int, judged_alone: bool) -> np.ndarray:
    """nDCG@10 under each of the grid's W weights, (W,). Documents rank by their best chunk.

    terms: number of distinct words of the query. judged_alone: leaves unjudged documents out of the ranking. Users
    judge only the hits that they see, so another order must not be punished for showing unjudged ones.
    """
    points, shares, lowest = leg_shares(legs, terms=terms)
    documents = [_document_of(point) for point in points]
    names = sorted({document for document in documents if not judged_alone or document in grades})
    ideal = _discounted(np.sort(np.array(list(grades.values()), dtype=float))[::-1][:DEPTH])
    if not names or ideal <= 0:
        return np.zeros(len(grid()))
    weights = np.zeros((len(LEGS), len(grid())))
    for column, choice in enumerate(grid()):
        filled = [leg for leg in choice if choice[leg] and leg in shares]
        for leg, weight in share_weights(choice, filled).items():
            weights[LEGS.index(leg), column] = weight
    table = np.array([[shares.get(leg, {}).get(point.id, lowest.get(leg, 0.0)) for leg in LEGS] for point in points])
    totals = table @ weights  # (points, W)
    best = np.full((len(names), totals.shape[1]), -np.inf)
    row_of = {name: row for row, name in enumerate(names)}
    for name, chunk_totals in zip(documents, totals, strict=True):
        if name in row_of:
            np.maximum(best[row_of[name]], chunk_totals, out=best[row_of[name]])
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
    """Number of the chosen weights in the grid, by the one-standard-error rule. scores: (queries, W).

    Chooses the weights nearest to the defaults whose mean gain is at most one standard error below the best gain; 0
    (the defaults) if the best gain is not larger than its standard error.
    """
    gains = scores - scores[:, :1]
    means = gains.mean(axis=0)
    best = int(means.argmax())
    least = means[best] - standard_error(gains[:, best])
    return int(np.flatnonzero((means >= least) & (means > 0))[0]) if means[best] > 0 and least > 0 else 0


def cross_validate(scores: np.ndarray, queries: Sequence[str], *, judgements: int) -> CrossValidation:
    """Cross-validates `choose`. scores: (queries, W), the defaults first. Equal query texts stay in one fold."""
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
    """A sort key that is independent of the text's content, for a random but fixed order."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
