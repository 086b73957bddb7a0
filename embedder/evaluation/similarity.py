"""Similarity of vectors: cosine, or for one vector per step, the cosine of the most similar step."""

from __future__ import annotations

import numpy as np


def scores_of(queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Scores (Q, M) of L2-normalised queries (Q, D) and documents (M, D).

    For vectors of all steps, (Q, K, D) and (M, K, D): a query's last vector against the document's best one (DEBATER,
    Ji et al. 2025).
    """
    if queries.ndim == 2:
        scores: np.ndarray = queries @ documents.T
        return scores
    return np.max([queries[:, -1] @ step.T for step in documents.swapaxes(0, 1)], axis=0)


def paired_scores(queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Like `scores_of`, but only of query i with document i: (n,)."""
    if queries.ndim == 2:
        return np.einsum("nd,nd->n", queries, documents)
    return np.einsum("nd,nkd->nk", queries[:, -1], documents).max(axis=1)


def one_vector(vectors: np.ndarray) -> np.ndarray:
    """The last of all steps: (n, K, D) to (n, D), for tasks that do not compare pairs."""
    return vectors if vectors.ndim == 2 else vectors[:, -1]
