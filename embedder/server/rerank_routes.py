"""`POST /v1/rerank`, compatible with Cohere's and Jina's clients, over any `EmbeddingSource`."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response

from embedder.engine.errors import InvalidRequestError
from embedder.errors import TextError
from embedder.server.failures import OpenAIRoute
from embedder.server.gone import unless_gone
from embedder.server.protocol import FINGERPRINT_HEADER, EmbeddingSource, EmbedTask, InputType
from embedder.server.schemas import OpenAIError, RerankAnswer, RerankedText, RerankQuestion, RerankRow
from embedder.text.mentions import mentions
from embedder.text.relevance import Parts, ValuePhrases, cosine_scores, joined_scores, reads_values_under

_MOST_TEXTS = 1_000  # texts per task
_FAILURES: dict[int | str, dict[str, Any]] = {each: {"model": OpenAIError} for each in (413, 422, 429, 500, 503)}


def rerank_routes(source: EmbeddingSource) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["rerank"], route_class=OpenAIRoute)

    @routes.post("/rerank", response_model=RerankAnswer, response_model_exclude_none=True, responses=_FAILURES)
    async def rerank(question: RerankQuestion, request: Request, response: Response) -> RerankAnswer:
        """Ranks texts for a query, applying its instruction to them too, and by values if the request has some."""
        _check_texts(question)
        scores = await unless_gone(request, score(source, question))
        response.headers[FINGERPRINT_HEADER] = (await source.info()).fingerprint
        order = np.argsort(-scores, kind="stable")[: question.top_n]
        return RerankAnswer(results=[_row(question, int(at), float(scores[at])) for at in order])

    return routes


async def score(source: EmbeddingSource, question: RerankQuestion) -> np.ndarray:
    """Scores (n,) of the documents. Raises RefusedError."""
    info = await source.info()
    values = _values_of(question)
    instruction = info.default_query_instruction if question.instruction is None else question.instruction
    texts = (question.query, *question.documents)
    seen = await source.embed(EmbedTask(texts, InputType.DOCUMENT, instruction=instruction, steps=question.steps))
    cosines = cosine_scores(seen.vectors[0], seen.vectors[1:])
    if values is None:
        return cosines
    is_read_under = reads_values_under(instruction, info.default_query_instruction)
    parts = Parts.of(texts) if is_read_under else Parts(texts)
    plainly = ("", 0) if info.min_steps == 0 else (None, None)
    parts, plain = parts.unrelated(await _vectors(source, parts.to_embed(values.phrases, instruction), *plainly))
    instructed = None
    if is_read_under:
        more = (*parts.texts[len(texts) :], *values.phrases)
        instructed = np.concatenate([seen.vectors, await _vectors(source, more, instruction, question.steps)])
    mentioned = mentions(parts.texts, values.phrases)
    return joined_scores(cosines, values.owners, mentioned, plain, instructed, parts=parts)


async def _vectors(
    source: EmbeddingSource, texts: tuple[str, ...], instruction: str | None, steps: int | None
) -> np.ndarray:
    """Vectors (n, D), embedded in several tasks: texts and their sentences may exceed the limit of one."""
    parts = [texts[at : at + _MOST_TEXTS] for at in range(0, len(texts), _MOST_TEXTS)]
    tasks = [EmbedTask(part, InputType.DOCUMENT, instruction=instruction, steps=steps) for part in parts]
    return np.concatenate([(await source.embed(task)).vectors for task in tasks])


def _values_of(question: RerankQuestion) -> ValuePhrases | None:
    if not question.values:
        return None
    try:
        return ValuePhrases.parse(question.values)
    except TextError as error:
        raise InvalidRequestError(str(error), param="values") from None


def _check_texts(question: RerankQuestion) -> None:
    if not question.query.strip():
        raise InvalidRequestError("The query is empty; write what you are looking for.", param="query")
    for index, text in enumerate(question.documents):
        if not text.strip():
            raise InvalidRequestError(f"Document {index} is empty; leave it out.", param="documents")


def _row(question: RerankQuestion, index: int, score: float) -> RerankRow:
    text = RerankedText(text=question.documents[index]) if question.return_documents else None
    return RerankRow(index=index, relevance_score=score, document=text)
