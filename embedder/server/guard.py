"""Middleware before the routes: checks the key, the body size and how long the body takes to arrive."""

from __future__ import annotations

import asyncio
import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from embedder.engine.errors import RefusedError, TooLargeError
from embedder.server.errors import UnauthorisedError
from embedder.server.failures import failure

OPEN_PATHS = frozenset({"/healthz", "/readyz"})


class SlowBodyError(RefusedError):
    status = 408
    code = "slow_body"


class RequestGuard:
    """Rejects requests without the key, with too large a body, or whose body arrives too slowly.

    key: required as `Authorization: Bearer <key>`; None: no key needed.
    """

    def __init__(self, app: ASGIApp, *, key: str | None, max_body_bytes: int, slow_client_s: float) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._key = None if key is None else key.encode()
        self._slow_client_s = slow_client_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not self._is_authorized(scope):
            refusal = UnauthorisedError(
                "This server requires its key (GIRCSE_EMBEDDER_API_KEY) as `Authorization: Bearer <key>`."
            )
            await _answer(refusal, scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "0")
        if declared.isdigit() and int(declared) > self._max_body_bytes:
            await _answer(self._too_large(int(declared)), scope, receive, send)
            return
        await self._with_limits(scope, receive, send)

    def _is_authorized(self, scope: Scope) -> bool:
        if self._key is None or scope["path"] in OPEN_PATHS:
            return True
        kind, _, shown = Headers(scope=scope).get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), self._key)

    def _too_large(self, count: int) -> TooLargeError:
        return TooLargeError(
            f"The body has {count} bytes or more; the limit is {self._max_body_bytes}. Send the texts in parts."
        )

    async def _with_limits(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Limits the reception of the body; afterwards a client may stay silent while it waits for the response."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._slow_client_s
        is_whole = has_begun = False
        count = 0

        async def receive_in_time() -> Message:
            nonlocal is_whole, count
            if is_whole:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), deadline - loop.time())
            except TimeoutError:
                raise SlowBodyError(f"The body did not arrive within {self._slow_client_s:g} s.") from None
            is_whole = not message.get("more_body", False)
            count += len(message.get("body", b""))
            if count > self._max_body_bytes:
                raise self._too_large(count)
            return message

        async def note_begun(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive_in_time, note_begun)
        except (SlowBodyError, TooLargeError) as error:
            if not has_begun:
                await _answer(error, scope, receive, send)


async def _answer(error: RefusedError, scope: Scope, receive: Receive, send: Send) -> None:
    response = failure(error, scope["path"])
    response.headers["connection"] = "close"
    await response(scope, receive, send)
