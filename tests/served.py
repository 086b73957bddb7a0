"""Applications and servers behind a real socket on this machine, in threads of the test's process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from typing import Any

import uvicorn
from patience import PATIENCE_S

from embedder.server.http_guard import BoundedProtocol

_START_S = PATIENCE_S
_CUT_OFF_S = 1
_POLL_S = 0.02  # how long a server may take to notice that it is to end


@contextmanager
def served(app: Any, *, port: int = 0) -> Iterator[str]:
    """Its address, `http://127.0.0.1:PORT`. Streams that are open when the block ends are cut off."""
    server = uvicorn.Server(
        uvicorn.Config(app, http=BoundedProtocol, port=port, log_level="warning", timeout_graceful_shutdown=_CUT_OFF_S)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    waited_s = 0.0
    while not server.started:
        assert thread.is_alive(), "the server ended before it was ready"
        assert waited_s < _START_S, f"the server did not start within {_START_S:g} s"
        thread.join(0.01)
        waited_s += 0.01
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)


@contextmanager
def in_thread(server: BaseServer) -> Iterator[None]:
    """It answers while the block is open, and is closed with it."""
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
