"""Which of the ranked candidates become hits: prose before tables, none twice, few of one document, unlike ones."""

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

# Of its score, what is no prose loses; docs/decisions/0037-chunks-keep-to-structure.md
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
FOLDED_BEYOND = 20  # ranks, or as many as are wanted
_ALIKE = 0.8  # of the shingles of two passages: near-identical (Broder's resemblance)
MOST_DIVERSIFIED = 200  # candidates


def select(
    candidates: Sequence[Candidate],
    request: SearchRequest,
    vectors_of: Callable[[Sequence[Candidate]], Mapping[str, Sequence[float]]],
) -> Sequence[Candidate]:
    """As many as the request wants, best first. `vectors_of` is asked only where some are to be unlike each other."""
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
    """Tables of numbers, references and menus lose a part of their score, unless the query asks for such."""
    demoted = {kind for kind, asked in _ASKS_FOR.items() if not asked.search(query)}

    def is_demoted(candidate: Candidate) -> bool:
        return _metadata(candidate).get(KIND_KEY) in demoted

    if not any(map(is_demoted, candidates)):
        return candidates
    scored = [_demoted(each) if is_demoted(each) else each for each in candidates]
    return sorted(scored, key=lambda each: -each.ranked.point.score)  # stable: of equals the one that was before


def fold_duplicates(candidates: Sequence[Candidate], most: int) -> Sequence[Candidate]:
    """The first `most` that are not near-identical to one before them; each has those that are to it, up to
    FOLDED_BEYOND ranks after the last.

    Context counts: two countries may have the same army.
    """
    kept: list[Candidate] = []
    shingles: list[frozenset[int]] = []
    places: dict[int, list[int]] = {}  # of kept ones, by the first of their shingles: two that are alike share one
    for number, candidate in enumerate(candidates):
        if len(kept) >= most and number >= most + max(FOLDED_BEYOND, most):
            break
        own = _shingles(embedded_text_of(candidate.ranked.point.payload))
        first = sorted(own)[: len(own) - math.ceil(_ALIKE * len(own)) + 1]
        twins = dict.fromkeys(place for each in first for place in places.get(each, ()))
        twin = next((place for place in sorted(twins) if _is_alike(own, shingles[place])), None)
        if twin is not None:
            kept[twin] = replace(kept[twin], duplicates=(*kept[twin].duplicates, candidate.ranked.point))
        elif len(kept) < most:
            for each in first:
                places.setdefault(each, []).append(len(kept))
            kept.append(candidate)
            shingles.append(own)
    return kept


def diversify(
    candidates: Sequence[Candidate], vectors: Mapping[str, Sequence[float]], diversity: float, most: int
) -> Sequence[Candidate]:
    """Maximal marginal relevance (Carbonell & Goldstein, 1998): each next one is relevant, and unlike those before it.

    Candidates without a vector were deleted meanwhile. Scores stay those of the ranking.
    """
    pool = [each for each in candidates if each.ranked.point.id in vectors]
    if not pool:
        return []
    matrix = np.asarray([vectors[each.ranked.point.id] for each in pool], dtype=np.float32)
    similarity = matrix @ matrix.T
    relevance = np.asarray(spread([each.ranked.point.score for each in pool]), dtype=np.float32)
    nearest = np.zeros(len(pool), dtype=np.float32)  # to one that is chosen
    chosen: list[int] = []
    while len(chosen) < min(most, len(pool)):
        worth = (1 - diversity) * relevance - diversity * nearest
        worth[chosen] = -np.inf
        best = int(np.argmax(worth))  # of equals the one that ranks higher
        chosen.append(best)
        nearest = np.maximum(nearest, similarity[best])
    return [pool[place] for place in chosen]


def at_most_per_document(candidates: Sequence[Candidate], most: int | None) -> Sequence[Candidate]:
    """The best ones of each document, in their order."""
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
