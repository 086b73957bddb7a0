"""A text's distribution over the values of a lens, from its vector and those of the values' phrases.

p(v | x) is the softmax of cos(x, v) / TEMPERATURE; two texts are as alike under a lens as the cosine of their p. Knows
neither model nor index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Chosen on the development aspects: docs/evaluation/lens-values.md.
TEMPERATURE = 0.07
# A query is asked for one value: docs/evaluation/rerank.md has this and the next on the tuning half.
QUERY_TEMPERATURE = 0.04
# What a text gains in cosine for a value that it says itself.
MENTION = 0.15
# A text fits a value that is nearer to it than phrases of other subjects are on average, by so many of their standard
# deviations. Counted this way it is the same for spaces in which everything is near to everything.
LEAST_FIT = 1.4


def value_cosines(
    vectors: np.ndarray, phrases: np.ndarray, value_of_phrase: Sequence[int], mentioned: np.ndarray | None = None
) -> np.ndarray:
    """(n, V) cosine of every text and every value, of whose phrases the nearest counts.

    vectors: (n, D); phrases: (P, D), both L2-normalised; value_of_phrase: the value 0..V-1 of each phrase, ascending.
    mentioned: (n, P) bool, whether the text says the phrase; such a one is nearer.
    """
    cosines = vectors @ phrases.T  # (n, P)
    if mentioned is not None:
        cosines = cosines + MENTION * mentioned
    starts = np.flatnonzero(np.diff(np.asarray(value_of_phrase), prepend=-1))
    return np.maximum.reduceat(cosines, starts, axis=1)


def distributions(cosines: np.ndarray, temperature: float = TEMPERATURE) -> np.ndarray:
    """softmax over values: (n, V) -> (n, V)."""
    scaled = cosines / temperature
    exponents = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


def similarities(distributions: np.ndarray, query: np.ndarray) -> np.ndarray:
    """(n, V) and (V,) -> (n,): the cosine of each distribution and the query's."""
    lengths = np.linalg.norm(distributions, axis=1) * np.linalg.norm(query)
    return distributions @ query / np.maximum(lengths, 1e-12)


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
