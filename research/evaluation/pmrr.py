"""p-MRR (FollowIR): whether a changed instruction moves down the documents that it makes irrelevant.

1 is perfect obedience, 0 indifference, -1 the opposite of what was asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

Run = Mapping[str, Mapping[str, float]]  # query -> document -> score, higher is better


def p_mrr(original: Run, changed: Run, made_irrelevant: Mapping[str, Sequence[str]]) -> float:
    """Mean over queries of p_mrr_by_query."""
    by_query = p_mrr_by_query(original, changed, made_irrelevant)
    if not by_query:
        raise ValueError("No query has a document that the changed instruction makes irrelevant.")
    return fmean(by_query.values())


def p_mrr_by_query(original: Run, changed: Run, made_irrelevant: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Mean of rank_change over each query's documents made irrelevant; queries without any are left out.

    original, changed: rankings under either instruction. A document that a ranking lacks counts as the one after its
    last. Raises ValueError for a query that a run lacks.
    """
    found = {}
    for query, documents in made_irrelevant.items():
        for name, run in (("original", original), ("changed", changed)):
            if query not in run:
                raise ValueError(f"The {name} run has no ranking for query {query!r}. Rank all queries under both.")
        if documents:
            before, after = _ranks(original[query]), _ranks(changed[query])
            found[query] = fmean(
                rank_change(before.get(document, len(before) + 1), after.get(document, len(after) + 1))
                for document in documents
            )
    return found


def rank_change(original: int, changed: int) -> float:
    """How far a document fell (above 0, up to 1) or rose (below 0, down to -1); ranks count from 1."""
    if original < 1 or changed < 1:
        raise ValueError(f"Ranks are {original} and {changed}, but count from 1.")
    return changed / original - 1 if original >= changed else 1 - original / changed


def _ranks(scores: Mapping[str, float]) -> dict[str, int]:
    """Document -> rank from 1; equal scores go by falling id, as in the field's tools."""
    ranked = sorted(scores, key=lambda document: (scores[document], document), reverse=True)
    return {document: rank for rank, document in enumerate(ranked, start=1)}
