"""Limits the size of request bodies and how slowly they may arrive.

A slow body blocks no other request, but holds a connection and memory.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.access import is_public
from app.api.problems import answer_error

GRACE_S = 30.0
BYTES_PER_S = 16_000.0
# Anyone may send one, many at a time, and parsing a form takes a microsecond for each byte.
MAX_PUBLIC_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """A body must be complete within `grace_s`, plus one second per `bytes_per_s` received.

    `max_public_bytes`: for paths that need no login, such as the login itself.
    """

    max_bytes: int
    grace_s: float = GRACE_S
    bytes_per_s: float = BYTES_PER_S
    max_public_bytes: int = MAX_PUBLIC_BYTES

    def of(self, path: str) -> BodyLimits:
        """The limits for this path."""
        return replace(self, max_bytes=min(self.max_bytes, self.max_public_bytes)) if is_public(path) else self

    @property
    def too_large(self) -> tuple[int, str]:
        return 413, f"The body is larger than the limit of {self.max_bytes:,} bytes."

    @property
    def too_slow(self) -> tuple[int, str]:
        return 408, f"The body arrived too slowly. Send at least {self.bytes_per_s:,.0f} bytes a second."


class BodyGuard:
    def __init__(self, app: ASGIApp, *, limits: BodyLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limits = self._limits.of(scope["path"])
        body = _Body(receive, send, limits)
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isascii() and declared.isdecimal() and int(declared[:20]) > limits.max_bytes:
            body.refusal = limits.too_large
        else:
            try:
                await self._app(scope, body.receive, body.send)
            except Exception:
                if body.refusal is None:  # otherwise it only reports the disconnect that `_Body` pretended
                    raise
        if body.refusal is not None and not body.is_answered:
            answer = answer_error(scope["path"], *body.refusal)
            answer.headers["Connection"] = "close"  # the rest of the body is not read
            await answer(scope, receive, send)


class _Body:
    """Wraps `receive` and `send` of one request. After a refusal the application sees a disconnected client."""

    def __init__(self, receive: Receive, send: Send, limits: BodyLimits) -> None:
        self._receive = receive
        self._send = send
        self._limits = limits
        self._deadline = time.monotonic() + limits.grace_s
        self._bytes = 0
        self._is_complete = False
        self.is_answered = False
        self.refusal: tuple[int, str] | None = None

    async def receive(self) -> Message:
        if self.refusal is not None:
            return {"type": "http.disconnect"}
        if self._is_complete or self.is_answered:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._deadline - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            self.refusal = self._limits.too_slow
            return {"type": "http.disconnect"}
        size = len(message.get("body", b""))
        self._bytes += size
        if self._bytes > self._limits.max_bytes:
            self.refusal = self._limits.too_large
            return {"type": "http.disconnect"}
        self._deadline += size / self._limits.bytes_per_s
        self._is_complete = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if self.refusal is None or self.is_answered:
            self.is_answered = True
            await self._send(message)
