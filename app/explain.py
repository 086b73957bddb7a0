"""Why a chunk was found: its sentence nearest to the query, measured by the same model in one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from app.ports import Embedder
from app.search_types import Highlight, Hit, SearchMode
from app.sentences import sentence_spans
from app.types import Collection

MAX_SENTENCES = 128  # per search; hits beyond it, from the last rank up, stay without a highlight


def explain_hits(
    hits: Sequence[Hit],
    query_vector: Sequence[float],
    *,
    embedder: Embedder,
    collection: Collection,
    mode: SearchMode = SearchMode.DENSE,
) -> tuple[Hit, ...]:
    """The hits with `why`. A chunk of one sentence highlights it with the chunk's own cosine, where that is known."""
    spans = [sentence_spans(hit.chunk.text) for hit in hits]
    cosine_of = {hit.chunk.id: _cosine_of(hit, mode) for hit in hits}
    texts = _sentences_to_embed(hits, spans, cosine_of)
    scores: dict[str, float] = {}
    if texts:
        vectors = embedder.embed_documents(
            texts, instruction=collection.document_instruction, steps=collection.document_steps
        )
        cosines = np.asarray(vectors, dtype=np.float64) @ np.asarray(query_vector, dtype=np.float64)
        scores = dict(zip(texts, cosines.tolist(), strict=True))
    return tuple(
        replace(hit, why=_best(hit, own, scores, cosine_of[hit.chunk.id])) for hit, own in zip(hits, spans, strict=True)
    )


def _cosine_of(hit: Hit, mode: SearchMode) -> float | None:
    if mode is SearchMode.DENSE:
        return hit.score
    return next((leg.score for leg in hit.legs if leg.leg is SearchMode.DENSE), None)


def _sentences_to_embed(
    hits: Sequence[Hit], spans: Sequence[Sequence[tuple[int, int]]], cosine_of: Mapping[str, float | None]
) -> list[str]:
    """Distinct sentences of whole chunks, best rank first, up to the cap."""
    texts: dict[str, None] = {}
    for hit, own in zip(hits, spans, strict=True):
        if not own or (len(own) == 1 and cosine_of[hit.chunk.id] is not None):
            continue
        new = {hit.chunk.text[start:end]: None for start, end in own} | texts
        if len(new) > MAX_SENTENCES:
            break
        texts = new
    return list(texts)


def _best(
    hit: Hit, spans: Sequence[tuple[int, int]], scores: dict[str, float], own_cosine: float | None
) -> Highlight | None:
    if len(spans) == 1 and own_cosine is not None:
        start, end = spans[0]
        return Highlight(start=start, end=end, score=own_cosine)
    scored = [(scores.get(hit.chunk.text[start:end]), start, end) for start, end in spans]
    known = [(score, start, end) for score, start, end in scored if score is not None]
    if len(known) < len(spans) or not known:
        return None
    score, start, end = max(known, key=lambda found: (found[0], -found[1]))  # of equals the first
    return Highlight(start=start, end=end, score=score)
