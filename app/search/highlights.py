"""Why a chunk was found: its sentence nearest to the query, by the same model. Proof: docs/evaluation/faithfulness.md.

Sentences are embedded in one batch and remembered, since they do not depend on the query. What words alone found is
highlighted by `app/search/highlights_bm25.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from app.ports.parts import Embedder
from app.types.search import Highlight, Hit, Leg, SearchMode
from embedder.lru import LRUCache
from embedder.text.sentences import sentence_spans

MAX_SENTENCES = 128  # that one call embeds; hits beyond it, from the last rank up, stay without a highlight
KEPT_SENTENCES = 4096
# Of a sentence, whatever the collection's own: what docs/evaluation/faithfulness.md measures. More cost more time.
NAMING_STEPS = 1  # 0 where chunks have vectors of the base model

Spans = Sequence[tuple[int, int]]


class Highlighter:
    """Safe to use from several threads. Remembers the vectors of `KEPT_SENTENCES` sentences."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: LRUCache[tuple[str, int, str], np.ndarray] = LRUCache(KEPT_SENTENCES)  # of a sentence

    def highlight(
        self,
        hits: Sequence[Hit],
        query_vector: Sequence[float],
        *,
        document_instruction: str,
        is_plain: bool = False,
        mode: SearchMode,
    ) -> tuple[Hit, ...]:
        """The hits with `why`; those that have one keep it. `is_plain`: chunks have vectors of the base model.

        A chunk of one sentence highlights it with the chunk's own cosine, where the search measured that.
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
        """Of the distinct sentences of whole chunks, best rank first, until so many are new that the cap is reached."""
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
            # Copies: a row that is kept would keep those of the whole call.
            self._vectors.keep({(instruction, steps, text): vector.copy() for text, vector in embedded.items()})
            vectors |= embedded
        return vectors


def _sentences(text: str) -> Spans:
    """Those with a letter or digit: a rule under a heading, or the fence of a code block, answers nothing."""
    spans = sentence_spans(text)
    return [each for each in spans if any(map(str.isalnum, text[slice(*each)]))] or spans


def _cosine_of(hit: Hit, mode: SearchMode) -> float | None:
    """Of the whole chunk and the query; None where the search did not measure it."""
    if mode is SearchMode.DENSE:
        return None if hit.value else hit.score  # under values the score is a joined one
    return next((leg.score for leg in hit.legs if leg.leg is Leg.DENSE), None)


def _texts(hit: Hit, spans: Spans, cosine: float | None) -> list[str]:
    """The sentences that must be embedded to name one."""
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
    score, start, end = max(known, key=lambda found: (found[0], -found[1]))  # of equals the first
    return Highlight(start=start, end=end, score=score)
