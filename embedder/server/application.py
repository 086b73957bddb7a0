"""Combines all routes of an embedding server into one application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from embedder.engine.engine import Engine
from embedder.server.docs_page import add_docs
from embedder.server.failures import failure_at, refused_by
from embedder.server.guard import Guard
from embedder.server.openai_routes import openai_routes
from embedder.server.own_routes import own_routes
from embedder.server.protocol import InputType
from embedder.server.rerank_routes import rerank_routes
from embedder.server.service import EngineSource


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
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own pages load scripts from other sites
        redoc_url=None,
    )
    application.state.engine = engine
    application.add_middleware(
        Guard,
        key=api_key,
        max_body_bytes=engine.limits.max_body_bytes,
        slow_client_s=engine.limits.slow_client_s,
    )
    application.include_router(openai_routes(source, input_type=input_type))
    application.include_router(rerank_routes(source))
    application.include_router(own_routes(source, tokenizer=tokenizer, card=card))

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
        return Response(generate_latest(engine.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @application.exception_handler(HTTPException)
    async def answer_http(request: Request, error: HTTPException) -> Response:
        return failure_at(request.url.path)(refused_by(error))

    add_docs(application)
    return application
