"""Connections that send their headers a byte at a time are closed: they block nobody, but each costs a descriptor."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEADERS_WITHIN_S = 30.0


class PromptProtocol(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """uvicorn's own, which waits for headers for ever. A request that has begun is none of its business."""

    headers_within_s = HEADERS_WITHIN_S

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._wait_for_headers()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _wait_for_headers(self) -> None:
        timer: Any = getattr(self, "_timer", None)
        if timer is not None:
            timer.cancel()
        self._timer = self.loop.call_later(self.headers_within_s, self._close_without_request)

    def _close_without_request(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
