"""The sentence that explains what words found, taken away: the drop of BM25, with the IDF of the whole corpus."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from app.search.bm25 import document_vector, query_vector
from app.search.highlights_bm25 import highlight_by_bm25
from app.types.search import Hit, HitChunk, HitDocument, SearchMode
from embedder.text.sentences import sentence_spans
from research.benchmarks.ablation import RANDOM_DRAWS, Pair


def pair_word_sentences(chunks: Sequence[str], queries: Sequence[str], *, hits_per_query: int, top: int) -> list[Pair]:
    """Drops are shares of the chunk's score. A hit of which no sentence is named counts with no drop on both sides."""
    counts = Counter(word for chunk in chunks for word in document_vector(chunk).indices)
    rarity = {word: math.log(1 + (len(chunks) - n + 0.5) / (n + 0.5)) for word, n in counts.items()}
    vectors = [dict(zip(found.indices, found.values, strict=True)) for found in map(document_vector, chunks)]
    pairs = []
    for number, query in enumerate(queries):
        asked = {word: rarity[word] for word in query_vector(query).indices if word in rarity}
        scores = [_score(vector, asked) for vector in vectors]
        ranked = sorted((place for place, score in enumerate(scores) if score > 0), key=lambda place: -scores[place])
        found = [place for place in ranked[:top] if len(sentence_spans(chunks[place])) > 1 and chunks[place] != query]
        hits = [
            Hit(
                rank=rank,
                score=scores[place],
                document=HitDocument("", "", "", {}),
                chunk=HitChunk(str(place), chunks[place], 0, len(chunks[place]), None),
            )
            for rank, place in enumerate(found[:hits_per_query], start=1)
        ]
        for hit in highlight_by_bm25(hits, query, mode=SearchMode.SPARSE):
            pairs.append(_pair(number, hit, asked))
    return pairs


def _pair(query: int, hit: Hit, asked: Mapping[int, float]) -> Pair:
    if hit.why is None:
        return Pair(query, 0.0, 0.0)
    text = hit.chunk.text
    spans = sentence_spans(text)
    drops = {}
    for start, end in spans:
        rest = document_vector(text[:start] + text[end:])
        drops[start] = 1 - _score(dict(zip(rest.indices, rest.values, strict=True)), asked) / hit.score
    named = math.log(hit.why.end - hit.why.start)
    others = sorted(
        (span for span in spans if span[0] != hit.why.start), key=lambda span: abs(math.log(span[1] - span[0]) - named)
    )[:RANDOM_DRAWS]
    return Pair(query, drops[hit.why.start], sum(drops[start] for start, _ in others) / len(others))


def _score(vector: Mapping[int, float], asked: Mapping[int, float]) -> float:
    return sum(weight * vector[word] for word, weight in asked.items() if word in vector)
