"""Ends an event stream when the key or session of its request becomes invalid."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.events import MEDIA_TYPE

POLL_S = 2.0


class WatchedStream:
    """Runs one request. Once its response turns out to be an event stream, polls `is_still_allowed` every `POLL_S`."""

    def __init__(self, app: ASGIApp, is_still_allowed: Callable[[], Awaitable[bool]]) -> None:
        self._app = app
        self._is_still_allowed = is_still_allowed
        self._watcher: asyncio.Task[None] | None = None
        self._is_cut = False

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        answering = asyncio.current_task()
        assert answering is not None

        async def send_watched(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_stream(message):
                self._watcher = asyncio.create_task(self._watch(answering))
            await send(message)

        try:
            await self._app(scope, receive, send_watched)
        except asyncio.CancelledError:
            if not self._is_cut:
                raise
            answering.uncancel()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if self._watcher is not None:
                self._watcher.cancel()

    async def _watch(self, answering: asyncio.Task[object]) -> None:
        while await self._is_still_allowed():
            await asyncio.sleep(POLL_S)
        self._is_cut = True
        answering.cancel()


def _is_stream(message: Message) -> bool:
    return Headers(raw=list(message.get("headers", ()))).get("content-type", "").startswith(MEDIA_TYPE)
