"""Why words found a chunk: the sentence without which its BM25 would fall most. No model is asked.

How rare a word is, the index alone knows; here the sentences of the hits stand in for all texts, which is enough to
tell the words that say something from those that every sentence has.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from app.search.bm25 import SparseVector, document_vector, query_vector
from app.types.search import Highlight, Hit, Leg, SearchMode
from embedder.text.sentences import sentence_spans

MAX_SENTENCES = 100  # of a chunk; a longer one stays without a highlight


def highlight_by_bm25(hits: Sequence[Hit], query: str, *, mode: SearchMode) -> tuple[Hit, ...]:
    """Adds `why` to the hits that words alone found; its score is the BM25 that the sentence adds.

    The others, and those that have one, stay as they are; so does a hit to which no sentence of its own adds anything.
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


def _rarity(sentences: set[str], asked: Sequence[int]) -> dict[int, float]:
    """BM25's IDF of the query's words (by id) over these sentences."""
    counts = Counter(word for sentence in sentences for word in document_vector(sentence).indices)
    return {
        word: math.log(1 + (len(sentences) - counts[word] + 0.5) / (counts[word] + 0.5))
        for word in asked
        if counts[word]
    }


def _heaviest(text: str, spans: Sequence[tuple[int, int]], rarity: Mapping[int, float]) -> Highlight | None:
    if len(spans) > MAX_SENTENCES:
        return None
    whole = _weigh(document_vector(text), rarity)
    added = [whole - _weigh(document_vector(text[:start] + text[end:]), rarity) for start, end in spans]
    best = max(range(len(spans)), key=lambda place: (added[place], -place), default=None)  # of equals the first
    if best is None or added[best] <= 0:
        return None
    start, end = spans[best]
    return Highlight(start=start, end=end, score=added[best])


def _weigh(vector: SparseVector, rarity: Mapping[int, float]) -> float:
    return sum(
        rarity[word] * value for word, value in zip(vector.indices, vector.values, strict=True) if word in rarity
    )
