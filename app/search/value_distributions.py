"""Whether a text fits a value of a lens, and how clearly texts fall into its values. Knows neither model nor index.

What a text is among the values is read by `embedder.text.relevance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embedder.text.relevance import value_cosines

# A query is asked for one value: docs/evaluation/rerank.md has this on the tuning half.
QUERY_TEMPERATURE = 0.04
# A text fits a value that is nearer to it than phrases of other subjects are on average, by so many of their standard
# deviations. Counted this way it is the same for spaces in which everything is near to everything.
LEAST_FIT = 1.4


def fits(cosines: np.ndarray, vectors: np.ndarray, background: np.ndarray, least: float = LEAST_FIT) -> np.ndarray:
    """(n,) bool: whether the best value of a text is nearer than phrases of other subjects are.

    background: (B, D), L2-normalised vectors of phrases of many subjects.
    """
    return margins(cosines, vectors, background) >= least


def margins(cosines: np.ndarray, vectors: np.ndarray, background: np.ndarray) -> np.ndarray:
    """(n,): by how many standard deviations the best value of a text is nearer than phrases of other subjects."""
    others = vectors @ background.T
    return (cosines.max(axis=1) - others.mean(axis=1)) / np.maximum(others.std(axis=1), 1e-12)


@dataclass(frozen=True, slots=True)
class Clarity:
    """`fitting` texts fit a value; `score` is the mean margin of the quarter of the texts that fit best."""

    score: float
    fitting: int


def measure_clarity(
    vectors: np.ndarray, phrases: np.ndarray, value_of_phrase: Sequence[int], background: np.ndarray
) -> Clarity:
    """vectors: (n, D) of texts; phrases: (P, D); background: (B, D), all L2-normalised."""
    if not len(vectors):
        return Clarity(0.0, 0)
    cosines = value_cosines(vectors, phrases, value_of_phrase)
    nearer = margins(cosines, vectors, background)
    best = np.sort(nearer)[-max(len(nearer) // 4, 1) :]
    return Clarity(float(best.mean()), int((nearer >= LEAST_FIT).sum()))
