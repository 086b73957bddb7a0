"""Ranks texts by their vectors, over any `EmbeddingSource`: the ranker of the embedding server's rerank routes."""

from __future__ import annotations

import numpy as np
from fastapi import Request

from embedder.engine.errors import InvalidRequestError
from embedder.errors import TextError
from embedder.model_info import ModelInfo
from embedder.server.gone import unless_gone
from embedder.server.protocol import FINGERPRINT_HEADER, EmbeddingSource, EmbedTask, InputType
from embedder.server.rerank_shapes import Rank, Ranked, RankTask
from embedder.text.mentions import mentions
from embedder.text.relevance import Parts, ValuePhrases, cosine_scores, joined_scores, reads_values_under

_MOST_TEXTS = 1_000  # texts per task
_DEFAULT_STEPS = 1


def ranker(source: EmbeddingSource) -> Rank:
    async def rank(task: RankTask, request: Request) -> Ranked:
        info = await source.info()
        vectors = _Vectors(source, may_cut=task.may_cut)
        try:
            scores = await unless_gone(request, _scores(vectors, task, info))
        except InvalidRequestError as error:
            if error.param != "input":
                raise
            raise InvalidRequestError(f"Query and documents, from 0: {error}", param="documents") from None
        headers = {FINGERPRINT_HEADER: info.fingerprint}
        return Ranked(scores.tolist(), info.name, vectors.tokens, headers=headers)

    return rank


class _Vectors:
    """Embeds texts in several tasks: texts and their sentences may exceed the limit of one. Counts tokens."""

    def __init__(self, source: EmbeddingSource, *, may_cut: bool) -> None:
        self._source = source
        self._may_cut = may_cut
        self.tokens = 0

    async def of(self, texts: tuple[str, ...], instruction: str | None, steps: int | None) -> np.ndarray:
        """Vectors (n, D). Raises RefusedError."""
        found = []
        for at in range(0, len(texts), _MOST_TEXTS):
            part = texts[at : at + _MOST_TEXTS]
            task = EmbedTask(part, InputType.DOCUMENT, instruction=instruction, steps=steps, may_cut=self._may_cut)
            embedded = await self._source.embed(task)
            self.tokens += embedded.tokens
            found.append(embedded.vectors)
        return np.concatenate(found)


async def _scores(vectors: _Vectors, task: RankTask, info: ModelInfo) -> np.ndarray:
    """Scores (n,) of the texts. Raises RefusedError."""
    values = _values_of(task)
    instruction = info.default_query_instruction if task.instruction is None else task.instruction
    steps = _DEFAULT_STEPS if task.steps is None else task.steps
    texts = (task.query, *task.texts)
    seen = await vectors.of(texts, instruction, steps)
    cosines = cosine_scores(seen[0], seen[1:])
    if values is None:
        return cosines
    is_read_under = reads_values_under(instruction, info.default_query_instruction)
    parts = Parts.of(texts) if is_read_under else Parts(texts)
    plainly = ("", 0) if info.min_steps == 0 else (None, None)
    parts, plain = parts.unrelated(await vectors.of(parts.to_embed(values.phrases, instruction), *plainly))
    instructed = None
    if is_read_under:
        more = (*parts.texts[len(texts) :], *values.phrases)
        instructed = np.concatenate([seen, await vectors.of(more, instruction, steps)])
    mentioned = mentions(parts.texts, values.phrases)
    return joined_scores(cosines, values.owners, mentioned, plain, instructed, parts=parts)


def _values_of(task: RankTask) -> ValuePhrases | None:
    if not task.values:
        return None
    try:
        return ValuePhrases.parse(task.values)
    except TextError as error:
        raise InvalidRequestError(str(error), param="values") from None
