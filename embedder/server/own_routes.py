"""Our own routes: refinement step by step, vectors in binary, and facts about the model for clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from embedder.engine.errors import RefusedError
from embedder.refinement import Refinement
from embedder.refinement_steps import RefinementStep
from embedder.server.failures import FailingRoute
from embedder.server.gone import unless_gone
from embedder.server.protocol import (
    CUT_HEADER,
    FINGERPRINT_HEADER,
    SHAPE_HEADER,
    TOKENS_HEADER,
    EmbedTask,
    RefineTask,
)
from embedder.server.schemas import EmbedQuestion, FactsAnswer, RefinedAnswer, RefineServerQuestion
from embedder.server.service import EngineSource

OWN_PREFIX = "/api/v1"
VECTORS_MEDIA_TYPE = "application/octet-stream"
EVENTS_MEDIA_TYPE = "text/event-stream"
_VECTORS: dict[int | str, dict[str, Any]] = {
    200: {"content": {VECTORS_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
}
_EVENTS: dict[int | str, dict[str, Any]] = {200: {"model": RefinedAnswer, "content": {EVENTS_MEDIA_TYPE: {}}}}


def own_routes(source: EngineSource, *, tokenizer: Callable[[], str], card: str | None = None) -> APIRouter:
    """Builds the routes. tokenizer: returns the model's tokenizer as JSON."""
    routes = APIRouter(prefix=OWN_PREFIX, tags=["embedding server"], route_class=FailingRoute)

    @routes.post("/embed", response_class=Response, responses=_VECTORS)
    async def embed(question: EmbedQuestion, request: Request) -> Response:
        """Vectors as little-endian float32, row by row; the header `x-gircse-shape` gives rows and dimension."""
        task = EmbedTask(
            tuple(question.texts),
            question.input_type,
            instruction=question.instruction,
            steps=question.steps,
            is_bulk=question.is_bulk,
            may_cut=question.truncate,
            every_step=question.every_step,
        )
        found = await unless_gone(request, source.embed(task))
        headers = {
            FINGERPRINT_HEADER: found.fingerprint,
            SHAPE_HEADER: ",".join(map(str, found.vectors.shape)),
            TOKENS_HEADER: str(found.tokens),
            CUT_HEADER: str(found.truncated),
        }
        return Response(found.vectors.astype("<f4").tobytes(), media_type=VECTORS_MEDIA_TYPE, headers=headers)

    @routes.post("/refine", response_model=RefinedAnswer, responses=_EVENTS)
    async def refine(question: RefineServerQuestion, request: Request) -> Response:
        """The vector of a query and the words of every refinement step.

        With `stream`, or if the client accepts server-sent events: one event `step` per step as soon as it is computed,
        then `result` or `error`.
        """
        task = RefineTask(
            question.text,
            instruction=question.instruction,
            steps=question.steps,
            token_bias=question.token_bias,
            tolerance=question.tolerance,
        )
        if question.stream or EVENTS_MEDIA_TYPE in request.headers.get("accept", ""):
            return await _stream(source, task, request)
        found = await unless_gone(request, source.refine(task))
        headers = {FINGERPRINT_HEADER: (await source.info()).fingerprint}
        return Response(_json_of(found), media_type="application/json", headers=headers)

    @routes.get("/model")
    async def model_info(response: Response) -> FactsAnswer:
        """Facts about the model, so that a client can use it like a local one."""
        info = await source.info()
        response.headers[FINGERPRINT_HEADER] = info.fingerprint
        return FactsAnswer.model_validate(replace(info, card=card))

    @routes.get("/tokenizer", response_class=Response)
    async def tokenizer_json() -> Response:
        """The model's tokenizer, so that clients can count tokens without the model."""
        info = await source.info()
        headers = {FINGERPRINT_HEADER: info.fingerprint}
        return Response(tokenizer(), media_type="application/json", headers=headers)

    return routes


async def _stream(source: EngineSource, task: RefineTask, request: Request) -> Response:
    """Streams the steps. An error before the first step sets the status; a later one becomes an event."""
    steps: asyncio.Queue[RefinementStep | None] = asyncio.Queue()
    work = asyncio.ensure_future(source.refine(task, on_step=steps.put_nowait))
    work.add_done_callback(lambda _: steps.put_nowait(None))
    try:
        first = await unless_gone(request, steps.get())
    except BaseException:
        work.cancel()
        raise
    if first is None and work.exception() is not None:
        await work

    async def events() -> AsyncIterator[str]:
        step = first
        try:
            while step is not None:
                yield _event("step", {"step": step.step, "tokens": [asdict(word) for word in step.tokens]})
                step = await steps.get()
            yield f"event: result\ndata: {_json_of(work.result())}\n\n"
        except RefusedError as error:
            yield _event("error", {"status": error.status, "detail": str(error), "code": error.code})
        finally:  # the client may have disconnected
            work.cancel()
            with suppress(asyncio.CancelledError, RefusedError):
                await work

    return StreamingResponse(events(), media_type=EVENTS_MEDIA_TYPE, headers={"cache-control": "no-store"})


def _event(name: str, data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _json_of(refinement: Refinement) -> str:
    return RefinedAnswer.model_validate(refinement).model_dump_json()
