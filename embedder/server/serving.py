"""Runs the server with uvicorn; after the stop signal, new requests are refused."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from embedder.checkpoint import load_encoder, load_model_tokenizer, read_model_card
from embedder.engine.engine import Engine
from embedder.engine.limits import Limits
from embedder.errors import EmbedderError
from embedder.model.model_thread import on_model_thread
from embedder.server.application import create_application
from embedder.server.http_guard import BoundedProtocol
from embedder.server.protocol import InputType

DEFAULT_PORT = 7861
KEEP_ALIVE_S = 30
_KEPT_SHAPES = 16


MIN_KEY_CHARACTERS = 32


class ListenError(EmbedderError):
    """The server cannot listen on this address."""


def listen(host: str, port: int, *, is_open: bool, api_key: str | None, command: str) -> socket.socket:
    """Opens the socket before the model is loaded, so that errors show at once. is_open: reachable from other
    machines."""
    if is_open:
        require_key(host, api_key, command=command)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise ListenError(f"Port {port} is in use; choose another with --port (0: any free one).") from None
    # Otherwise the second response on a connection waits 40 ms for the client's delayed acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def require_key(host: str, api_key: str | None, *, command: str) -> None:
    """Raises ListenError unless the key is long enough that nobody can guess it."""
    if api_key is not None and len(api_key) >= MIN_KEY_CHARACTERS:
        return
    fault = "without a key" if api_key is None else f"with a key of {len(api_key)} characters, which others can guess"
    raise ListenError(
        f"{host} would open this server to the network {fault}. Give it one of {MIN_KEY_CHARACTERS} or more, and its "
        f"clients the same: GIRCSE_EMBEDDER_API_KEY=$(openssl rand -hex 32) {command} --host {host}"
    )


def run_server(
    listener: socket.socket,
    model: str,
    *,
    device: str | None = None,
    dtype: str | None = "auto",
    cuda_graphs: bool = False,
    limits: Limits,
    api_key: str | None,
    input_type: InputType = InputType.DOCUMENT,
    announce: Callable[[str], None],
) -> None:
    """Serves until SIGTERM or Ctrl-C; then finishes pending requests and refuses new ones."""
    application, engine = load_application(
        model,
        device=device,
        dtype=dtype,
        cuda_graphs=cuda_graphs,
        limits=limits,
        api_key=api_key,
        input_type=input_type,
    )
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    _Server(application, engine, announce=lambda: announce(url)).run(sockets=[listener])


def load_application(
    model: str,
    *,
    device: str | None,
    dtype: str | None,
    limits: Limits,
    api_key: str | None,
    input_type: InputType,
    cuda_graphs: bool = False,
) -> tuple[FastAPI, Engine]:
    bound_shape_caches()
    encoder = on_model_thread(load_encoder, model, device=device, dtype=dtype, cuda_graphs=cuda_graphs)
    tokenizer = load_model_tokenizer(model).to_str()
    engine = Engine(encoder, limits)
    application = create_application(
        engine, tokenizer=lambda: tokenizer, card=read_model_card(model), api_key=api_key, input_type=input_type
    )
    return application, engine


def bound_shape_caches() -> None:
    """Limits oneDNN's cache of prepared product shapes. By default it keeps 1,024 shapes: hundreds of megabytes,
    because every batch has another shape. Preparing a shape again costs a tenth of its time. oneDNN reads this at its
    first product."""
    for name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
        os.environ.setdefault(name, str(_KEPT_SHAPES))


class _Server(uvicorn.Server):
    def __init__(self, application: FastAPI, engine: Engine, *, announce: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                http=BoundedProtocol,
                ws="none",
                log_level="warning",
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, round(engine.limits.drain_s)),
            )
        )
        self._engine = engine
        self._announce = announce

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._engine.drain()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._announce()
