"""Refuses requests of which two servers could see different ends: a proxy before this one, and this one."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import problem


class FramingGuard:
    """RFC 9112, 6.1: a length and a transfer encoding together are an attempt at request smuggling.

    To be mounted before all that answers: what the connection brings after such a request may be anybody's.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            lengths, encodings = headers.getlist("content-length"), headers.getlist("transfer-encoding")
            if encodings and (lengths or [each.strip().lower() for each in encodings] != ["chunked"]):
                refusal = problem(400, "Send a Content-Length or `Transfer-Encoding: chunked`, not both.")
                refusal.headers["Connection"] = "close"
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
