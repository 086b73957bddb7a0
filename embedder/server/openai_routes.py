"""OpenAI's `POST /v1/embeddings` and `GET /v1/models`, over any `EmbeddingSource`."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from embedder.engine.errors import InvalidRequestError
from embedder.model_info import ModelInfo
from embedder.server.errors import UnknownModelError
from embedder.server.failures import FailingRoute
from embedder.server.gone import unless_gone
from embedder.server.lenient import ignored_header
from embedder.server.protocol import (
    CUT_HEADER,
    FINGERPRINT_HEADER,
    EmbeddedTexts,
    EmbeddingSource,
    EmbedTask,
    InputType,
)
from embedder.server.schemas import EmbeddingAnswer, EmbeddingQuestion, ModelList, ModelRow

OWNER = "gircse-search"
_LARGE_ANSWER = 16  # texts; serialising more numbers than this would block the event loop


def openai_routes(source: EmbeddingSource, *, input_type: InputType = InputType.DOCUMENT) -> APIRouter:
    """Builds the routes. input_type: the role of texts if the request gives none, as with OpenAI's clients."""
    routes = APIRouter(prefix="/v1", tags=["OpenAI"], route_class=FailingRoute)
    started = int(time.time())

    @routes.post("/embeddings", response_model=EmbeddingAnswer)
    async def embeddings(question: EmbeddingQuestion, request: Request) -> Response:
        """Embeddings in the format of OpenAI's API, with the additional fields `input_type`, `instruction` and
        `steps`."""
        info = await source.info()
        _check_model(question.model, info)
        check_dimensions(question.dimensions, info)
        task = EmbedTask(
            texts_of(question.input, "input"),
            question.input_type or input_type,
            instruction=question.instruction,
            steps=question.steps,
            may_cut=question.truncate,
        )
        found = await unless_gone(request, source.embed(task))
        body = await body_of(len(task.texts), lambda: _answer(question, info.name, found))
        headers = {FINGERPRINT_HEADER: found.fingerprint, CUT_HEADER: str(found.truncated)}
        headers |= ignored_header(question.ignored())
        return Response(body, media_type="application/json", headers=headers)

    @routes.get("/models")
    async def models() -> ModelList:
        """Lists the one served model."""
        info = await source.info()
        return ModelList(data=[_row_of(info)])

    @routes.get("/models/{model:path}")
    async def model(model: str) -> ModelRow:
        """The served model, or 404 for another name."""
        info = await source.info()
        _check_model(model, info)
        return _row_of(info)

    def _row_of(info: ModelInfo) -> ModelRow:
        return ModelRow(id=info.name, created=started, owned_by=OWNER)

    return routes


def _check_model(name: str, info: ModelInfo) -> None:
    if name != info.name:
        raise UnknownModelError(f"The model {name[:200]!r} is not served here; {info.name!r} is.", param="model")


def check_dimensions(dimensions: int | None, info: ModelInfo) -> None:
    if dimensions is not None and dimensions > info.dimension:
        raise InvalidRequestError(
            f"dimensions is {dimensions}, but the model gives {info.dimension}.", param="dimensions"
        )


def texts_of(given: str | list[str] | list[int] | list[list[int]], param: str) -> tuple[str, ...]:
    """The texts of the field `param`. Raises InvalidRequestError for token ids, an empty text, and no text."""
    texts = [given] if isinstance(given, str) else given
    if not texts:
        raise InvalidRequestError(f"{param} holds 0 texts; give at least one.", param=param)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidRequestError(
                f"{param} holds token ids ({len(texts)} entries), which belong to another model's tokenizer. "
                "Send texts; in LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False).",
                param=param,
            )
        if not text.strip():
            raise InvalidRequestError(
                f"Text {index} of {len(texts)} is empty. Leave it out.",
                param=param,
            )
    return tuple(str(text) for text in texts)


async def body_of(texts: int, answer: Callable[[], Any]) -> bytes:
    """The answer as JSON; that of many texts is written in a thread."""
    return await run_in_threadpool(_write, answer) if texts > _LARGE_ANSWER else _write(answer)


def _write(answer: Callable[[], Any]) -> bytes:
    return json.dumps(answer(), allow_nan=False, separators=(",", ":")).encode()


def _answer(question: EmbeddingQuestion, model: str, found: EmbeddedTexts) -> dict[str, Any]:
    vectors = found.vectors
    if question.dimensions is not None and question.dimensions < vectors.shape[1]:
        vectors = shortened(vectors, question.dimensions)
    if question.encoding_format == "base64":
        rows: list[Any] = [base64.b64encode(row.astype("<f4").tobytes()).decode("ascii") for row in vectors]
    else:
        rows = vectors.tolist()
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)],
        "model": model,
        "usage": {"prompt_tokens": found.tokens, "total_tokens": found.tokens},
    }


def shortened(vectors: np.ndarray, dimensions: int) -> np.ndarray:
    """The first `dimensions` numbers of each vector, normalised again. Raises InvalidRequestError if all are zero."""
    first = vectors[:, :dimensions].astype(np.float64)
    lengths = np.linalg.norm(first, axis=1, keepdims=True)
    if (lengths == 0).any():
        raise InvalidRequestError(f"The first {dimensions} numbers of a vector are all zero.", param="dimensions")
    return (first / lengths).astype(np.float32)
