"""Rejects requests whose end, or whose host, a proxy and this server could read differently (request smuggling)."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.hosts import is_host
from app.api.problems import answer_error


class FramingGuard:
    """Middleware that rejects Content-Length together with Transfer-Encoding, and encodings other than `chunked`.

    RFC 9112, 6.1 names the combination as an attempt at request smuggling. Also rejects a Host that is no host and port
    (3.2), such as `localhost:80@attacker.example`.

    Mount it outside every middleware that can send a response. It closes the connection, since what follows such a
    request may belong to another client.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            lengths, encodings = headers.getlist("content-length"), headers.getlist("transfer-encoding")
            reason = None
            if encodings and (lengths or [encoding.strip().lower() for encoding in encodings] != ["chunked"]):
                reason = "Send a Content-Length or `Transfer-Encoding: chunked`, not both."
            elif (host := headers.get("host", "")) and not is_host(host):
                reason = "The Host header must be a host name or address, with or without a port."
            if reason is not None:
                refusal = answer_error(scope["path"], 400, reason)
                refusal.headers["Connection"] = "close"
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
