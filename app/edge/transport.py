"""Sends requests to the Edge server and detects a hung server: TCP does not fail if the process is merely suspended.

A request may legitimately take long. After QUIET_S without a response the server is pinged on another connection;
while it responds to pings, the request continues.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from ssl import SSLContext
from typing import Any

import httpcore
import httpx

from app.edge.connection import EdgeConnection, is_answering

QUIET_S = 2.0
PING_S = 1.5
AWAY_S = 1.0  # after a failed ping, requests fail at once for this time
_IDLE_CONNECTIONS, _IDLE_S = 20, 4.0  # the server closes an idle one after 5 s

_log = logging.getLogger(__name__)


class EdgeTransport(httpx.BaseTransport):
    """httpx transport to one Edge server. Raises httpx.ReadTimeout if it hangs, httpx.NetworkError if it has ended."""

    def __init__(self, connection: EdgeConnection) -> None:
        self._connection = connection
        self._engine = f"the embedded engine (process {connection.pid})"
        self._pool = httpcore.ConnectionPool(
            max_connections=None,
            max_keepalive_connections=_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_S,
            network_backend=_Backend(self._is_alive),
        )
        self._away_until = 0.0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if time.monotonic() < self._away_until:
            raise httpx.ReadTimeout(f"{self._engine} did not respond a moment ago", request=request)
        try:
            answer = self._pool.request(
                request.method,
                str(request.url),
                headers=request.headers.raw,
                content=request.read(),
                extensions=request.extensions,
            )
        except httpcore.TimeoutException as error:
            raise httpx.ReadTimeout(f"{self._engine} does not respond", request=request) from error
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise httpx.NetworkError(str(error) or type(error).__name__, request=request) from error
        return httpx.Response(answer.status, headers=answer.headers, stream=httpx.ByteStream(answer.content))

    def close(self) -> None:
        self._pool.close()

    def _is_alive(self) -> bool:
        if is_answering(self._connection, timeout_s=PING_S):
            return True
        self._away_until = time.monotonic() + AWAY_S
        _log.warning("Hung: %s.", self._engine)
        return False


class _Backend(httpcore.SyncBackend):
    def __init__(self, is_alive: Callable[[], bool]) -> None:
        super().__init__()
        self._is_alive = is_alive

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        return _Patient(super().connect_tcp(host, port, PING_S, local_address, socket_options), self._is_alive)


class _Patient(httpcore.NetworkStream):
    """A stream whose `read` pings the server every QUIET_S and fails only if the ping fails or the timeout is over."""

    def __init__(self, stream: httpcore.NetworkStream, is_alive: Callable[[], bool]) -> None:
        self._stream = stream
        self._is_alive = is_alive

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        until = time.monotonic() + (float("inf") if timeout is None else timeout)
        while True:
            try:
                return self._stream.read(max_bytes, min(QUIET_S, max(until - time.monotonic(), 0.001)))
            except httpcore.ReadTimeout:
                if time.monotonic() >= until or not self._is_alive():
                    raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return self._stream.start_tls(ssl_context, server_hostname, timeout)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
