"""Highlights in each hit the sentence nearest to the query, by the same model.

Measured in docs/evaluation/faithfulness.md. Sentences are embedded in one batch. Their vectors are cached, since they
do not depend on the query. Hits that only BM25 found are highlighted by `app/search/highlights_bm25.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from app.ports.parts import Embedder
from app.types.search import Highlight, Hit, Leg, SearchMode
from embedder.lru import LRUCache
from embedder.text.sentences import sentence_spans

MAX_SENTENCES = 128  # embedded per search; the lowest-ranked hits beyond it get no highlight
KEPT_SENTENCES = 4096
# Refinement steps per sentence, independent of the collection's: docs/evaluation/faithfulness.md measures this value.
# More steps cost more time. Collections with base-model vectors use 0 instead.
NAMING_STEPS = 1

Spans = Sequence[tuple[int, int]]


class Highlighter:
    """Finds the best sentence of each hit. Caches the vectors of `KEPT_SENTENCES` sentences. Thread-safe."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        # By (instruction, steps, sentence).
        self._vectors: LRUCache[tuple[str, int, str], np.ndarray] = LRUCache(KEPT_SENTENCES)

    def highlight(
        self,
        hits: Sequence[Hit],
        query_vector: Sequence[float],
        *,
        document_instruction: str,
        is_plain: bool = False,
        mode: SearchMode,
    ) -> tuple[Hit, ...]:
        """Adds `why` to the hits that lack it. `is_plain`: the collection has base-model vectors (0 steps).

        A chunk of one sentence is highlighted without embedding, if the search measured the chunk's cosine.
        """
        spans = [() if hit.why else _sentences(hit.chunk.text) for hit in hits]
        cosines = [_cosine_of(hit, mode) for hit in hits]
        vectors = self._vectors_of(
            [_texts(hit, own, cosine) for hit, own, cosine in zip(hits, spans, cosines, strict=True)],
            instruction=document_instruction,
            steps=0 if is_plain else NAMING_STEPS,
        )
        query = np.asarray(query_vector, dtype=np.float64)
        scores = {text: float(vector.astype(np.float64) @ query) for text, vector in vectors.items()}
        return tuple(
            hit if hit.why else replace(hit, why=_best(hit, own, cosine, scores))
            for hit, own, cosine in zip(hits, spans, cosines, strict=True)
        )

    def _vectors_of(self, chunks: Sequence[Sequence[str]], *, instruction: str, steps: int) -> dict[str, np.ndarray]:
        """Vectors by sentence. chunks: their sentences, best rank first. Stops before the first chunk that would raise
        the number of newly embedded sentences above MAX_SENTENCES."""
        vectors: dict[str, np.ndarray] = {}
        new: dict[str, None] = {}
        for sentences in chunks:
            known = {
                text: vector
                for text in sentences
                if (vector := self._vectors.get((instruction, steps, text))) is not None
            }
            unknown = dict.fromkeys(text for text in sentences if text not in known)
            if len(new | unknown) > MAX_SENTENCES:
                break
            vectors |= known
            new |= unknown
        if new:
            found = self._embedder.embed_documents(list(new), instruction=instruction, steps=steps)
            embedded = dict(zip(new, np.asarray(found, dtype=np.float32), strict=True))
            # Copies: a cached view would keep the array of the whole call in memory.
            self._vectors.keep({(instruction, steps, text): vector.copy() for text, vector in embedded.items()})
            vectors |= embedded
        return vectors


def _sentences(text: str) -> Spans:
    """Spans of sentences with a letter or digit, which leaves out heading rules and code fences; all spans if none."""
    spans = sentence_spans(text)
    return [span for span in spans if any(map(str.isalnum, text[slice(*span)]))] or spans


def _cosine_of(hit: Hit, mode: SearchMode) -> float | None:
    """Cosine of the query and the whole chunk; None if the search did not measure it."""
    if mode is SearchMode.DENSE:
        return None if hit.value else hit.score  # a hit of a lens value has a combined score
    return next((leg.score for leg in hit.legs if leg.leg is Leg.DENSE), None)


def _texts(hit: Hit, spans: Spans, cosine: float | None) -> list[str]:
    """The sentences to embed: none if the chunk is one sentence whose cosine is known."""
    if len(spans) == 1 and cosine is not None:
        return []
    return [hit.chunk.text[start:end] for start, end in spans]


def _best(hit: Hit, spans: Spans, cosine: float | None, scores: dict[str, float]) -> Highlight | None:
    if len(spans) == 1 and cosine is not None:
        start, end = spans[0]
        return Highlight(start=start, end=end, score=cosine)
    scored = [(scores.get(hit.chunk.text[start:end]), start, end) for start, end in spans]
    known = [(score, start, end) for score, start, end in scored if score is not None]
    if len(known) < len(spans) or not known:
        return None
    score, start, end = max(known, key=lambda scored: (scored[0], -scored[1]))  # on ties the first sentence
    return Highlight(start=start, end=end, score=score)
