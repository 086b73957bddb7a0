"""Rejects requests whose end a proxy and this server could locate differently (request smuggling)."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import answer_error


class FramingGuard:
    """Middleware that rejects Content-Length together with Transfer-Encoding, and encodings other than `chunked`.

    RFC 9112, 6.1 names the combination as an attempt at request smuggling.

    Mount it outside every middleware that can send a response. It closes the connection, since what follows such a
    request may belong to another client.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            lengths, encodings = headers.getlist("content-length"), headers.getlist("transfer-encoding")
            if encodings and (lengths or [encoding.strip().lower() for encoding in encodings] != ["chunked"]):
                refusal = answer_error(
                    scope["path"], 400, "Send a Content-Length or `Transfer-Encoding: chunked`, not both."
                )
                refusal.headers["Connection"] = "close"
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
