"""Ends a request when the key or session behind it becomes invalid: while its body or its response takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.events import MEDIA_TYPE

POLL_S = 2.0


class WatchedRequest:
    """Runs one request. Asks `is_still_allowed` once more before a body is used that took `POLL_S` to arrive, and every
    `POLL_S` during the response.
    """

    def __init__(self, app: ASGIApp, is_still_allowed: Callable[[], Awaitable[bool]]) -> None:
        self._app = app
        self._is_still_allowed = is_still_allowed
        self._watcher: asyncio.Task[None] | None = None
        self._has_begun = False
        self._is_stream = False
        self._is_cut = False
        self._is_refused = False

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """False if the request was refused when its body had arrived: the caller then sends the response."""
        answering = asyncio.current_task()
        assert answering is not None
        begun = asyncio.get_running_loop().time()

        async def receive_checked() -> Message:
            if self._is_refused:
                return {"type": "http.disconnect"}
            message = await receive()
            is_whole = message["type"] == "http.request" and not message.get("more_body", False)
            is_late = asyncio.get_running_loop().time() - begun > POLL_S
            if is_whole and is_late and not self._has_begun and not await self._is_still_allowed():
                self._is_refused = not self._has_begun  # a response that has begun meanwhile is watched
            return {"type": "http.disconnect"} if self._is_refused else message

        async def send_watched(message: Message) -> None:
            if self._is_refused:  # the application answers the disconnect that it was told of
                return
            if message["type"] == "http.response.start":
                self._has_begun = True
                self._is_stream = _is_stream(message)
                self._watcher = asyncio.create_task(self._watch(answering))
            await send(message)

        try:
            await self._app(scope, receive_checked, send_watched)
        except asyncio.CancelledError:
            if not self._is_cut:
                raise
            answering.uncancel()
            if self._is_stream:  # other responses stay incomplete, so that the client notices
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except Exception:
            if not self._is_refused:
                raise
        finally:
            if self._watcher is not None:
                self._watcher.cancel()
        return not self._is_refused

    async def _watch(self, answering: asyncio.Task[object]) -> None:
        if not self._is_stream:  # nearly all of these end sooner
            await asyncio.sleep(POLL_S)
        while await self._is_still_allowed():
            await asyncio.sleep(POLL_S)
        self._is_cut = True
        answering.cancel()


def _is_stream(message: Message) -> bool:
    return Headers(raw=list(message.get("headers", ()))).get("content-type", "").startswith(MEDIA_TYPE)
