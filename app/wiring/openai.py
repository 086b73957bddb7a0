"""OpenAI-compatible routes of the main application, with the local model or forwarded to the embedding server."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool

from app.errors import UnavailableError
from app.services import Services
from app.settings import Settings
from app.types.access import message_for_caller
from app.wiring.bounded_http import BoundedAsyncClient
from app.wiring.embedding import LocalEmbedder
from app.wiring.remote import PING_S, QUIET_S, RemoteEmbedder, client_options, error_of, vectors_of
from embedder.engine.errors import NotServingError, RefusedError
from embedder.model_info import ModelInfo
from embedder.server.errors import refusal_of_status
from embedder.server.openai_routes import openai_routes
from embedder.server.protocol import CUT_HEADER, FINGERPRINT_HEADER, TOKENS_HEADER, EmbeddedTexts, EmbedTask, InputType

_DOCUMENT_TIMEOUTS = 10  # timeout for documents, as a multiple of the timeout for a query


@contextmanager
def open_openai_routes(services: Services) -> Iterator[APIRouter | None]:
    """The routes, or None if the embedder is neither a local model nor an embedding server."""
    settings, embedder = services.settings, services.embedder
    input_type = InputType(settings.embedder_input_type)
    if isinstance(embedder, RemoteEmbedder):
        yield openai_routes(ForwardingSource(embedder, settings), input_type=input_type)
    elif isinstance(embedder, LocalEmbedder):
        with importlib.import_module("app.wiring.engine").open_source(embedder) as source:
            yield openai_routes(source, input_type=input_type)
    else:
        yield None


class ForwardingSource:
    """Embeddings of the embedding server, for the application's own OpenAI routes. Implements `EmbeddingSource`:
    forwards texts to the embedding server and returns its vectors and errors."""

    def __init__(self, embedder: RemoteEmbedder, settings: Settings) -> None:
        key = settings.embedder_api_key
        secret = None if key is None else key.get_secret_value()
        self._embedder = embedder
        self._options = client_options(embedder.url, secret, timeout_s=settings.embedder_timeout_s * _DOCUMENT_TIMEOUTS)
        self._clients: dict[asyncio.AbstractEventLoop, BoundedAsyncClient] = {}

    async def info(self) -> ModelInfo:
        try:
            return await run_in_threadpool(lambda: self._embedder.info)
        except UnavailableError as error:
            raise NotServingError(message_for_caller(error), retry_after_s=5) from None

    async def embed(self, task: EmbedTask) -> EmbeddedTexts:
        body = {
            "texts": task.texts,
            "input_type": task.input_type,
            "instruction": task.instruction,
            "steps": task.steps,
            "is_bulk": task.is_bulk,
            "truncate": task.may_cut,
        }
        try:
            answer = await self._watched(self._client().post("/api/v1/embed", json=body))
        except httpx.TransportError as error:
            raise NotServingError(
                f"The embedding server does not respond ({type(error).__name__}). Try again later.", retry_after_s=5
            ) from None
        if not answer.is_success:
            raise _refusal_of(answer)
        try:
            vectors = vectors_of(answer, count=len(task.texts))
        except UnavailableError as error:
            raise NotServingError(message_for_caller(error), retry_after_s=5) from None
        return EmbeddedTexts(
            vectors,
            tokens=int(answer.headers.get(TOKENS_HEADER, 0)),
            truncated=int(answer.headers.get(CUT_HEADER, 0)),
            fingerprint=answer.headers.get(FINGERPRINT_HEADER, ""),
        )

    async def _watched(self, request: Coroutine[Any, Any, httpx.Response]) -> httpx.Response:
        """The response, however late. Raises httpx.ReadTimeout early if the server hangs."""
        sent = asyncio.ensure_future(request)
        try:
            while not (await asyncio.wait([sent], timeout=QUIET_S))[0]:
                ping = asyncio.wrap_future(self._embedder.ping())  # needs no thread that requests may all use
                if not (await asyncio.wait([ping], timeout=PING_S))[0] or not ping.result():
                    raise httpx.ReadTimeout("it no longer responds")
            return sent.result()
        finally:
            sent.cancel()

    def _client(self) -> BoundedAsyncClient:
        """The client of the running event loop: connections belong to the loop that opened them and end with it."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = BoundedAsyncClient(**self._options)
        return self._clients[loop]


def _refusal_of(answer: httpx.Response) -> RefusedError:
    detail, code = error_of(answer)
    after = answer.headers.get("retry-after", "")
    return refusal_of_status(
        answer.status_code, detail, code=code, retry_after_s=float(after) if after.isdigit() else None
    )
