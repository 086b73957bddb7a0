"""Pings an embedding server with a thread and connections of its own, since requests may use up all others."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx

from app.wiring.bounded_http import BoundedClient

_KEPT_S = 3_600.0


class ServerPings:
    """Pings one embedding server. `options`: for `httpx.Client`, except `limits`, which are replaced."""

    def __init__(self, *, ping_s: float, **options: Any) -> None:
        # The connection stays open between pings: a new one resolves the name, which may hang while the server works.
        limits = httpx.Limits(max_connections=None, keepalive_expiry=_KEPT_S)
        self._client = BoundedClient(**{**options, "limits": limits})
        self._ping_s = ping_s
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gircse-ping")
        self._running: Future[bool] | None = None

    def begin(self) -> Future[bool]:
        """The result of a ping. While one runs, all callers share it. It may never come: name resolution may hang."""
        with self._lock:
            if self._running is None or self._running.done():
                self._running = self._thread.submit(self.is_ok, "/healthz", timeout_s=self._ping_s)
            return self._running

    def is_ok(self, path: str, *, timeout_s: float) -> bool:
        try:
            return self._client.get(path, timeout=timeout_s).status_code == httpx.codes.OK
        except (httpx.HTTPError, RuntimeError):  # RuntimeError: the client was closed
            return False

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._client.close()
