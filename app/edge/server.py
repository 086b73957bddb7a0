"""The Edge server process: serves a subset of Qdrant's REST API for the shards of one data folder.

Run as `python -m app.edge.server DATA_DIR` with a pipe on stdin. It ends when that pipe closes, or at SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import logging
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import uvicorn
from filelock import FileLock, Timeout
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app.edge import operations
from app.edge.connection import (
    AUTH_HEADER,
    BUSY_EXIT_CODE,
    HOST,
    EdgeConnection,
    forget_connection,
    read_connection,
    write_connection,
)
from app.edge.errors import RefusedRequestError, unsupported
from app.edge.optimizing import Optimizer
from app.edge.shards import Shards
from embedder.server.http_guard import BoundedProtocol

log = logging.getLogger(__name__)

_FLUSH_INTERVAL_S = 5
_SHUTDOWN_TIMEOUT_S = 5
_POLL_INTERVAL_S = 5
_LOCK_FILE = "edge.lock"
READY_PATH = "/readyz"

Operation = Callable[[Shards, Mapping[str, str], bytes], object]
OptimizerOperation = Callable[[Optimizer, Mapping[str, str], bytes], object]

_READING: list[tuple[str, str, Operation]] = [
    ("GET", "/collections", operations.list_collections),
    ("POST", "/collections/aliases", operations.change_aliases),
    ("GET", "/aliases", operations.list_aliases),
    ("PUT", "/collections/{name}", operations.create_collection),
    ("GET", "/collections/{name}/exists", operations.collection_exists),
    ("GET", "/collections/{name}/aliases", operations.list_aliases),
    ("POST", "/collections/{name}/points", operations.retrieve_points),
    ("POST", "/collections/{name}/points/query", operations.query),
    ("POST", "/collections/{name}/points/query/batch", operations.query_batch),
    ("POST", "/collections/{name}/points/scroll", operations.scroll),
    ("POST", "/collections/{name}/points/count", operations.count),
    ("POST", "/collections/{name}/facet", operations.facet),
]
_WRITING: list[tuple[str, str, Operation]] = [
    ("DELETE", "/collections/{name}/index/{field}", operations.delete_index),
    ("PUT", "/collections/{name}/points", operations.upsert),
    ("POST", "/collections/{name}/points/delete", operations.delete_points),
    ("POST", "/collections/{name}/points/batch", operations.update_batch),
    ("POST", "/collections/{name}/points/labels", operations.set_labels),
]
_OPTIMIZING: list[tuple[str, str, OptimizerOperation]] = [
    ("GET", "/collections/{name}", operations.describe_collection),
    ("PATCH", "/collections/{name}", operations.update_collection),
    ("DELETE", "/collections/{name}", operations.delete_collection),
    ("GET", "/collections/{name}/optimizations", operations.list_optimizations),
]


class TokenMiddleware:
    """Rejects requests without the token with status 401."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = scope["type"] != "http" or scope["path"] == READY_PATH  # as in Qdrant, it needs no key
        if is_open or self._is_admitted(dict(scope["headers"])):
            await self._app(scope, receive, send)
            return
        refusal = _failure(401, "Must provide an API key or an Authorization bearer token", time.perf_counter())
        await refusal(scope, receive, send)

    def _is_admitted(self, headers: Mapping[bytes, bytes]) -> bool:
        bearer = headers.get(b"authorization", b"").removeprefix(b"Bearer ")
        given = headers.get(AUTH_HEADER.encode("ascii"), bearer)
        return hmac.compare_digest(given, self._token)


def create_app(shards: Shards, connection: EdgeConnection, data_dir: Path) -> Starlette:
    optimizer = Optimizer(shards)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        write_connection(data_dir, connection)
        flushing = asyncio.create_task(_flush_regularly(shards))
        yield
        forget_connection(data_dir, connection)
        flushing.cancel()
        await optimizer.stop()
        shards.close()

    return Starlette(
        routes=_routes(shards, optimizer),
        middleware=[Middleware(TokenMiddleware, token=connection.token)],
        lifespan=lifespan,
        exception_handlers={
            RefusedRequestError: _refused,
            ValidationError: _malformed,
            HTTPException: _no_such_route,
            Exception: _broken,
        },
    )


def _routes(shards: Shards, optimizer: Optimizer) -> list[Route]:
    def route(method: str, path: str, operate: Callable[[Mapping[str, str], bytes], object], *, writes: bool) -> Route:
        async def endpoint(request: Request) -> Response:
            """Runs on the event loop: a thread has no advantage, since Edge holds the GIL during every call."""
            request.state.started = time.perf_counter()
            body = await request.body()
            async with shards.write_lock(request.path_params["name"]) if writes else nullcontext():
                result = operate({"wait": request.query_params.get("wait", "true"), **request.path_params}, body)
            return _answer(200, {"result": result, "status": "ok"}, request.state.started)

        return Route(path, endpoint, methods=[method])

    return [
        Route("/", _version, methods=["GET"]),
        Route("/cluster", _cluster, methods=["GET"]),
        Route(READY_PATH, _ready, methods=["GET"]),
        route("PUT", "/collections/{name}/index", partial(operations.create_index, optimizer), writes=True),
        *(route(method, path, partial(operate, shards), writes=False) for method, path, operate in _READING),
        *(route(method, path, partial(operate, shards), writes=True) for method, path, operate in _WRITING),
        *(route(method, path, partial(operate, optimizer), writes=False) for method, path, operate in _OPTIMIZING),
    ]


async def _version(request: Request) -> Response:
    return Response(to_json(operations.version()), media_type="application/json")


async def _cluster(request: Request) -> Response:
    return _answer(200, {"result": {"status": "disabled"}, "status": "ok"}, time.perf_counter())


async def _ready(request: Request) -> Response:
    return PlainTextResponse("all shards are ready")


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedRequestError)
    return _failure(error.status, str(error), _started(request))


def _malformed(request: Request, error: Exception) -> Response:
    """Status 501 for an unknown field, which is an unsupported feature of Qdrant; 400 for any other mistake."""
    assert isinstance(error, ValidationError)
    details = error.errors(include_url=False, include_context=False, include_input=False)
    for detail in details:
        if detail["type"] == "extra_forbidden":
            return _refused(request, unsupported(f"the field `{_location(detail['loc'])}` of this request"))
    first = details[0]
    return _failure(400, f"Format error in JSON body: {_location(first['loc'])}: {first['msg']}", _started(request))


def _no_such_route(request: Request, error: Exception) -> Response:
    return _refused(request, unsupported(f"{request.method} {request.url.path}"))


def _broken(request: Request, error: Exception) -> Response:
    return _failure(500, f"Service internal error: {error}", _started(request))


def _started(request: Request) -> float:
    return getattr(request.state, "started", time.perf_counter())


def _location(parts: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in parts) or "body"


def _failure(status: int, message: str, started: float) -> Response:
    return _answer(status, {"result": None, "status": {"error": message}}, started)


def _answer(status: int, content: dict[str, object], started: float) -> Response:
    body = to_json({**content, "time": time.perf_counter() - started})
    return Response(body, status_code=status, media_type="application/json")


async def _flush_regularly(shards: Shards) -> None:
    while True:
        await asyncio.sleep(_FLUSH_INTERVAL_S)
        shards.flush()


def _end_with_stdin(server: uvicorn.Server) -> None:
    """Stop the server when stdin closes. The parent has the other end of the pipe: it closes even after `kill -9`."""
    with suppress(OSError):
        while sys.stdin.buffer.read(1):
            pass
    server.should_exit = True


def _end_without_folder(server: uvicorn.Server, connection: EdgeConnection, data_dir: Path) -> None:
    """Stop the server when its folder was removed or replaced.

    Otherwise others would start a second server in the folder, while clients of this one would not notice.
    """
    is_ours = True
    while not server.should_exit:
        time.sleep(_POLL_INTERVAL_S)
        with suppress(OSError):  # if unreadable now, check again the next time
            present = read_connection(data_dir)
            is_ours = not server.started or (present is not None and present.token == connection.token)
        if not (is_ours or server.should_exit):
            log.error("The folder %s was removed or replaced: stopping this server", data_dir)
            server.should_exit = True


def serve(data_dir: Path) -> None:
    shards = Shards(data_dir)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind((HOST, 0))
        listener.listen()
        connection = EdgeConnection(port=listener.getsockname()[1], token=secrets.token_urlsafe(32), pid=os.getpid())
        config = uvicorn.Config(
            create_app(shards, connection, data_dir),
            http=BoundedProtocol,
            log_level=logging.WARNING,
            access_log=False,
            timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
            ws="none",
        )
        server = uvicorn.Server(config)
        threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
        threading.Thread(target=_end_without_folder, args=(server, connection, data_dir), daemon=True).start()
        server.run(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_dir", type=Path)
    data_dir = parser.parse_args().data_dir
    os.umask(0o077)  # the engine's files must be private, too
    try:
        # The kernel releases the lock when the process ends, even after a crash.
        with FileLock(data_dir / _LOCK_FILE, timeout=0):
            serve(data_dir)
    except Timeout:
        sys.exit(BUSY_EXIT_CODE)


if __name__ == "__main__":
    main()
