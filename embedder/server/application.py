"""Combines all routes of an embedding server into one application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from embedder.engine.engine import Engine
from embedder.server.description import (
    BEARER,
    LICENSE,
    SERVERS,
    complete_description,
    describe_errors,
    describe_keys,
    describe_problems,
    operation_id,
)
from embedder.server.docs_page import add_docs
from embedder.server.errors import UnknownPathError, WrongMethodError
from embedder.server.failures import FailingRoute, failure, refused_by
from embedder.server.guard import OPEN_PATHS, RequestGuard
from embedder.server.openai_routes import openai_routes
from embedder.server.own_routes import OWN_PREFIX, own_routes
from embedder.server.protocol import InputType
from embedder.server.rerank_routes import ranker
from embedder.server.rerank_shapes import rerank_routes
from embedder.server.service import EngineSource
from embedder.server.tei_routes import tei_routes
from embedder.server.unknown_paths import methods_at, unknown_path, wrong_method

_TAGS = {
    "OpenAI": "Embeddings in the format of OpenAI's API.",
    "rerank": "Rank texts, in the formats of Cohere, Jina, Voyage, vLLM and text-embeddings-inference.",
    "text-embeddings-inference": "Embeddings in the format of text-embeddings-inference.",
    "embedding server": "Vectors in binary, the words of every refinement step, facts about the model.",
    "health": "For monitoring.",
}


def create_application(
    engine: Engine,
    *,
    tokenizer: Callable[[], str],
    card: str | None = None,
    api_key: str | None = None,
    input_type: InputType = InputType.DOCUMENT,
) -> FastAPI:
    """Builds the application; its shutdown closes the engine."""
    source = EngineSource(engine)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        source.close()
        engine.close()

    application = FastAPI(
        title="gircse embedder",
        version=version("gircse-embedder"),
        description="Embeddings that follow an instruction: OpenAI's API, and refinement step by step.",
        openapi_tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
        license_info=LICENSE,
        servers=SERVERS,
        generate_unique_id_function=operation_id,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own pages load scripts from other sites
        redoc_url=None,
    )
    application.state.engine = engine
    application.add_middleware(
        RequestGuard,
        key=api_key,
        max_body_bytes=engine.limits.max_body_bytes,
        slow_client_s=engine.limits.slow_client_s,
    )
    application.include_router(openai_routes(source, input_type=input_type))
    application.include_router(rerank_routes(ranker(source), route_class=FailingRoute))
    application.include_router(tei_routes(source, input_type=input_type))
    application.include_router(own_routes(source, tokenizer=tokenizer, card=card))

    _add_health_routes(application, engine, source)

    @application.exception_handler(HTTPException)
    async def answer_http(request: Request, error: HTTPException) -> Response:
        if error.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):  # by the router
            return _answer_unrouted(application, request, error)
        return failure(refused_by(error), request.url.path)

    add_docs(application)
    _describe(application, requires_key=api_key is not None)
    return application


def _add_health_routes(application: FastAPI, engine: Engine, source: EngineSource) -> None:
    @application.get("/healthz", tags=["health"])
    async def healthz() -> dict[str, str]:
        """Checks that the process is alive."""
        return {"status": "ok"}

    @application.get("/readyz", tags=["health"], responses={503: {}})
    async def readyz(response: Response) -> dict[str, str]:
        """Checks that the model can embed a canary text now."""
        is_ready = await source.is_ready()
        response.status_code = 200 if is_ready else 503
        return {"status": "ready" if is_ready else "not ready"}

    @application.get("/metrics", tags=["health"], response_class=Response)
    async def metrics() -> Response:
        """Metrics in Prometheus' text format."""
        return Response(generate_latest(engine.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _describe(application: FastAPI, *, requires_key: bool) -> None:
    def complete(schema: dict[str, Any]) -> None:
        describe_errors(schema)
        describe_problems(schema, folder=OWN_PREFIX, is_open=OPEN_PATHS.__contains__)
        describe_keys(schema, {"bearer": BEARER}, is_open=OPEN_PATHS.__contains__, required=requires_key)

    complete_description(application, complete)


def _answer_unrouted(application: FastAPI, request: Request, error: HTTPException) -> Response:
    method, path = request.method, request.url.path
    paths = application.openapi()["paths"]
    if error.status_code == HTTPStatus.NOT_FOUND:
        return failure(UnknownPathError(unknown_path(method, path, paths)), path)
    allowed = methods_at(path, paths) or [(error.headers or {}).get("allow", "GET")]
    response = failure(WrongMethodError(wrong_method(method, path, allowed)), path)
    response.headers["Allow"] = ", ".join(allowed)
    return response
