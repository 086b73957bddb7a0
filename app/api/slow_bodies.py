"""Bodies that trickle in: whoever sends one slower than any real connection is told so, and let go.

They block nobody, but each would hold a connection, and what it has sent, for as long as it likes.
"""

from __future__ import annotations

import asyncio
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import problem

GRACE_S = 30.0
BYTES_PER_S = 16_000.0


class SlowBodies:
    """A body must be there within `grace_s`, and a second more for each `bytes_per_s` of it."""

    def __init__(self, app: ASGIApp, *, grace_s: float = GRACE_S, bytes_per_s: float = BYTES_PER_S) -> None:
        self._app = app
        self._grace_s = grace_s
        self._bytes_per_s = bytes_per_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(receive, send, self._grace_s, self._bytes_per_s)
        try:
            await self._app(scope, body.receive, body.send)
        except Exception:
            if not body.is_refused:  # else it only says that the client has gone, which it was told
                raise
        if body.is_refused:
            refusal = problem(
                408, f"The body came too slowly; at least {self._bytes_per_s:,.0f} bytes a second, please."
            )
            refusal.headers["Connection"] = "close"
            await refusal(scope, receive, send)


class _Body:
    def __init__(self, receive: Receive, send: Send, grace_s: float, bytes_per_s: float) -> None:
        self._receive = receive
        self._send = send
        self._deadline = time.monotonic() + grace_s
        self._bytes_per_s = bytes_per_s
        self._is_complete = False
        self._is_answered = False
        self.is_refused = False

    async def receive(self) -> Message:
        if self._is_complete or self._is_answered:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._deadline - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            self.is_refused = True
            return {"type": "http.disconnect"}
        self._deadline += len(message.get("body", b"")) / self._bytes_per_s
        self._is_complete = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """What the application makes of the disconnection is not sent."""
        self._is_answered = True
        if not self.is_refused:
            await self._send(message)
