"""Selects hits from ranked candidates: prefers prose, folds duplicates, limits hits per document, diversifies."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from app.search.reranking import Candidate, spread, with_score
from app.types.chunk_text import KIND_KEY, embedded_text_of
from app.types.documents import ChunkKind
from app.types.search import SearchRequest

# Share of its score that a chunk loses if it is not prose; docs/decisions/0037-chunks-keep-to-structure.md
DEMOTION = 0.2
_ASKS_FOR = {
    ChunkKind.TABLE: re.compile(
        r"\b(?:tables?|scores?|figures?|numbers?|percent\w*|statistics)\b|\d[.,]\d", re.IGNORECASE
    ),
    ChunkKind.REFERENCES: re.compile(
        r"\b(?:references?|bibliograph\w+|citations?|cite[sd]?|doi|arxiv|et al|published|proceedings|journal|authors?|"
        r"(?:19|20)\d\d)\b",
        re.IGNORECASE,
    ),
    ChunkKind.NAVIGATION: re.compile(r"\b(?:menus?|navigation|footers?|sitemap|imprint|links?)\b", re.IGNORECASE),
}
_WORD = re.compile(r"\w+")
_SHINGLE = 3  # words
FOLDED_BEYOND = 20  # ranks after the last hit that are searched for duplicates; at least as many as hits are wanted
_ALIKE = 0.8  # Jaccard similarity of two passages' shingles from which they are near-identical (Broder's resemblance)
MOST_DIVERSIFIED = 200  # candidates


def select(
    candidates: Sequence[Candidate],
    request: SearchRequest,
    vectors_of: Callable[[Sequence[Candidate]], Mapping[str, Sequence[float]]],
) -> Sequence[Candidate]:
    """Returns up to `request.limit` candidates, best first. Calls `vectors_of` only if `request.diversity` is set."""
    if request.prefer_prose:
        candidates = prefer_prose(candidates, request.query)
    if request.fold_duplicates:
        is_last = request.per_document is None and not request.diversity
        candidates = fold_duplicates(candidates, request.limit if is_last else len(candidates))
    candidates = at_most_per_document(candidates, request.per_document)
    if request.diversity:
        pool = candidates[:MOST_DIVERSIFIED]
        candidates = diversify(pool, vectors_of(pool), request.diversity, request.limit)
    return candidates[: request.limit]


def prefer_prose(candidates: Sequence[Candidate], query: str) -> Sequence[Candidate]:
    """Demotes tables, references and menus, each unless the query asks for that kind."""
    demoted = {kind for kind, pattern in _ASKS_FOR.items() if not pattern.search(query)}

    def is_demoted(candidate: Candidate) -> bool:
        return _metadata(candidate).get(KIND_KEY) in demoted

    if not any(map(is_demoted, candidates)):
        return candidates
    scored = [_demoted(candidate) if is_demoted(candidate) else candidate for candidate in candidates]
    return sorted(scored, key=lambda candidate: -candidate.ranked.point.score)  # stable: equals keep their order


def fold_duplicates(candidates: Sequence[Candidate], most: int) -> Sequence[Candidate]:
    """Returns the first `most` candidates that are not near-identical to a better one.

    Each carries its near-identical ones as `duplicates`, from up to FOLDED_BEYOND (or `most`) ranks after the last.
    Texts are compared with their context: the same sentence about the army may stand under two countries.
    """
    kept: list[Candidate] = []
    shingles: list[frozenset[int]] = []
    # Indices into `kept` by a prefix of the sorted shingles: two near-identical texts share at least one of them.
    kept_at: dict[int, list[int]] = {}
    for number, candidate in enumerate(candidates):
        if len(kept) >= most and number >= most + max(FOLDED_BEYOND, most):
            break
        own = _shingles(embedded_text_of(candidate.ranked.point.payload))
        first = sorted(own)[: len(own) - math.ceil(_ALIKE * len(own)) + 1]
        twins = {at for shingle in first for at in kept_at.get(shingle, ())}
        twin = next((at for at in sorted(twins) if _is_alike(own, shingles[at])), None)
        if twin is not None:
            kept[twin] = replace(kept[twin], duplicates=(*kept[twin].duplicates, candidate.ranked.point))
        elif len(kept) < most:
            for shingle in first:
                kept_at.setdefault(shingle, []).append(len(kept))
            kept.append(candidate)
            shingles.append(own)
    return kept


def diversify(
    candidates: Sequence[Candidate], vectors: Mapping[str, Sequence[float]], diversity: float, most: int
) -> Sequence[Candidate]:
    """Maximal marginal relevance (Carbonell & Goldstein, 1998): each pick is relevant and unlike the picks before it.

    diversity: 0 keeps the ranking, 1 ignores relevance. Candidates without a vector were deleted since and are left
    out. Scores do not change.
    """
    pool = [candidate for candidate in candidates if candidate.ranked.point.id in vectors]
    if not pool:
        return []
    matrix = np.asarray([vectors[candidate.ranked.point.id] for candidate in pool], dtype=np.float32)
    similarity = matrix @ matrix.T
    relevance = np.asarray(spread([candidate.ranked.point.score for candidate in pool]), dtype=np.float32)
    nearest = np.zeros(len(pool), dtype=np.float32)  # greatest similarity to a chosen candidate
    chosen: list[int] = []
    while len(chosen) < min(most, len(pool)):
        worth = (1 - diversity) * relevance - diversity * nearest
        worth[chosen] = -np.inf
        best = int(np.argmax(worth))  # on ties the better ranked
        chosen.append(best)
        nearest = np.maximum(nearest, similarity[best])
    return [pool[at] for at in chosen]


def at_most_per_document(candidates: Sequence[Candidate], most: int | None) -> Sequence[Candidate]:
    """Keeps the first `most` candidates of each document, in order; all of them if `most` is None."""
    if most is None:
        return candidates
    seen: Counter[object] = Counter()
    kept = []
    for candidate in candidates:
        document = _metadata(candidate)["document_id"]
        seen[document] += 1
        if seen[document] <= most:
            kept.append(candidate)
    return kept


def _demoted(candidate: Candidate) -> Candidate:
    score = candidate.ranked.point.score
    return replace(candidate, ranked=with_score(candidate.ranked, score - DEMOTION * abs(score)))


def _shingles(text: str) -> frozenset[int]:
    words = _WORD.findall(text.casefold())
    return frozenset(hash(tuple(words[at : at + _SHINGLE])) for at in range(max(1, len(words) - _SHINGLE + 1)))


def _is_alike(one: frozenset[int], other: frozenset[int]) -> bool:
    if min(len(one), len(other)) < _ALIKE * max(len(one), len(other)):
        return False
    shared = len(one & other)
    return shared >= _ALIKE * (len(one) + len(other) - shared)


def _metadata(candidate: Candidate) -> Mapping[str, object]:
    return cast("Mapping[str, object]", candidate.ranked.point.payload["metadata"])
