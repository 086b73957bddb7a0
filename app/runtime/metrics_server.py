"""Serves /metrics and /healthz on loopback, for a process without another server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from app.runtime.metrics import CONTENT_TYPE, ProcessMetrics

HOST = "127.0.0.1"
_TIMEOUT_S = 10


@contextmanager
def serving_metrics(port: int, metrics: ProcessMetrics, *, is_well: Callable[[], bool]) -> Iterator[int]:
    """Serves within the block and yields the port, which is a free one for port 0. /healthz responds 503 while
    `is_well` returns False."""

    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT_S  # for each read
        server_version = "gircse"
        sys_version = ""

        def setup(self) -> None:
            """Also limits the request as a whole: a byte every now and then would keep its thread for ever."""
            super().setup()
            self._deadline = threading.Timer(_TIMEOUT_S, self._cut)
            self._deadline.start()

        def finish(self) -> None:
            self._deadline.cancel()
            super().finish()

        def _cut(self) -> None:
            with suppress(OSError):  # it has just ended
                self.connection.shutdown(socket.SHUT_RDWR)

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(HTTPStatus.OK, metrics.render(), CONTENT_TYPE)
            elif self.path == "/healthz":
                status = HTTPStatus.OK if is_well() else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, b"", "text/plain")
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"", "text/plain")

        def _answer(self, status: HTTPStatus, body: bytes, media_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """No log line per scrape."""

    with ThreadingHTTPServer((HOST, port), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
