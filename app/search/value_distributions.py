"""Decides whether a text fits any value of a lens, and how clearly texts fall into its values.

Knows neither model nor index. `embedder.text.relevance` computes the distribution of a text over the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embedder.text.relevance import value_cosines

# Softmax temperature for queries, low since a query has one value. Tuning half: docs/evaluation/rerank.md.
QUERY_TEMPERATURE = 0.04
# A text fits a value whose cosine is at least this many standard deviations above the mean cosine with background
# phrases. The measure also works in anisotropic spaces, where all cosines are high.
LEAST_FIT = 1.4


def fits(cosines: np.ndarray, vectors: np.ndarray, background: np.ndarray, least: float = LEAST_FIT) -> np.ndarray:
    """(n,) bool: whether the best value's margin over phrases of other subjects is at least `least`.

    background: (B, D), L2-normalised vectors of phrases of many subjects.
    """
    return margins(cosines, vectors, background) >= least


def margins(cosines: np.ndarray, vectors: np.ndarray, background: np.ndarray) -> np.ndarray:
    """(n,): the cosine of a text's best value, in standard deviations above its mean cosine with `background`."""
    others = vectors @ background.T
    return (cosines.max(axis=1) - others.mean(axis=1)) / np.maximum(others.std(axis=1), 1e-12)


@dataclass(frozen=True, slots=True)
class Clarity:
    """How clearly texts fall into the values of a lens. `fitting`: number of texts that fit a value. `score`: mean
    margin of the best quarter of the texts."""

    score: float
    fitting: int


def measure_clarity(
    vectors: np.ndarray, phrases: np.ndarray, value_of_phrase: Sequence[int], background: np.ndarray
) -> Clarity:
    """Measures how clearly texts fall into the values.

    vectors: (n, D) of texts; phrases: (P, D); background: (B, D), all L2-normalised.
    """
    if not len(vectors):
        return Clarity(0.0, 0)
    cosines = value_cosines(vectors, phrases, value_of_phrase)
    text_margins = margins(cosines, vectors, background)
    best = np.sort(text_margins)[-max(len(text_margins) // 4, 1) :]
    return Clarity(float(best.mean()), int((text_margins >= LEAST_FIT).sum()))
