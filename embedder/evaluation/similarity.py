"""How alike vectors are: by their cosine, or where a text has one for every step, by the step that is most alike."""

from __future__ import annotations

import numpy as np


def scores_of(queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """(Q, M) of L2-normalised queries (Q, D) and documents (M, D).

    Of all steps (Q, K, D) and (M, K, D): a query's last against the document's best (DEBATER, Ji et al. 2025).
    """
    if queries.ndim == 2:
        scores: np.ndarray = queries @ documents.T
        return scores
    return np.max([queries[:, -1] @ step.T for step in documents.swapaxes(0, 1)], axis=0)


def paired_scores(queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """As `scores_of`, of query i and document i alone: (n,)."""
    if queries.ndim == 2:
        return np.einsum("nd,nd->n", queries, documents)
    return np.einsum("nd,nkd->nk", queries[:, -1], documents).max(axis=1)


def one_vector(vectors: np.ndarray) -> np.ndarray:
    """(n, D): the last of all steps (n, K, D), for what compares no pairs."""
    return vectors if vectors.ndim == 2 else vectors[:, -1]
