"""How many passages of one document stand among the hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

from app.search.reranking import Candidate


def at_most_per_document(candidates: Sequence[Candidate], most: int | None) -> Sequence[Candidate]:
    """The best ones of each document, in their order."""
    if most is None:
        return candidates
    seen: Counter[object] = Counter()
    kept = []
    for candidate in candidates:
        metadata = cast("Mapping[str, object]", candidate.ranked.point.payload["metadata"])
        seen[metadata["document_id"]] += 1
        if seen[metadata["document_id"]] <= most:
            kept.append(candidate)
    return kept
