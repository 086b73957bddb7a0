"""Highlights in hits of BM25 the sentence whose removal lowers the score most. Uses no model.

Only the index knows the true IDF. Here it is estimated from the sentences of the hits, which is enough to tell specific
words from common ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from app.search.bm25 import SparseVector, document_vector, query_vector
from app.types.search import Highlight, Hit, Leg, SearchMode
from embedder.text.sentences import sentence_spans

MAX_SENTENCES = 100  # per chunk; a longer one gets no highlight


def highlight_by_bm25(hits: Sequence[Hit], query: str, *, mode: SearchMode) -> tuple[Hit, ...]:
    """Adds `why` to hits that only BM25 found; its score is the BM25 that the sentence contributes.

    Unchanged stay hits of other legs, hits with a `why`, and hits of which no single sentence contributes anything.
    """
    spans = {hit.chunk.id: sentence_spans(hit.chunk.text) for hit in hits if not hit.why and _is_of_words(hit, mode)}
    if not spans:
        return tuple(hits)
    rarity = _rarity(
        {hit.chunk.text[start:end] for hit in hits for start, end in spans.get(hit.chunk.id, ())[:MAX_SENTENCES]},
        query_vector(query).indices,
    )
    return tuple(
        replace(hit, why=_heaviest(hit.chunk.text, spans[hit.chunk.id], rarity)) if hit.chunk.id in spans else hit
        for hit in hits
    )


def _is_of_words(hit: Hit, mode: SearchMode) -> bool:
    if mode is SearchMode.HYBRID:
        return all(leg.leg is Leg.SPARSE for leg in hit.legs)
    return mode is SearchMode.SPARSE


def _rarity(sentences: set[str], query_terms: Sequence[int]) -> dict[int, float]:
    """BM25's IDF over these sentences, by term id, of the query's terms that occur in them."""
    counts = Counter(word for sentence in sentences for word in document_vector(sentence).indices)
    return {
        word: math.log(1 + (len(sentences) - counts[word] + 0.5) / (counts[word] + 0.5))
        for word in query_terms
        if counts[word]
    }


def _heaviest(text: str, spans: Sequence[tuple[int, int]], rarity: Mapping[int, float]) -> Highlight | None:
    if len(spans) > MAX_SENTENCES:
        return None
    whole = _weigh(document_vector(text), rarity)
    added = [whole - _weigh(document_vector(text[:start] + text[end:]), rarity) for start, end in spans]
    best = max(range(len(spans)), key=lambda at: (added[at], -at), default=None)  # on ties the first sentence
    if best is None or added[best] <= 0:
        return None
    start, end = spans[best]
    return Highlight(start=start, end=end, score=added[best])


def _weigh(vector: SparseVector, rarity: Mapping[int, float]) -> float:
    return sum(
        rarity[word] * value for word, value in zip(vector.indices, vector.values, strict=True) if word in rarity
    )
