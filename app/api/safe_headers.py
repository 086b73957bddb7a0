"""Tells browsers what a page of this server may do: load and ask nothing elsewhere, stand in no other site's frame.

The second line of defence: whatever documents contain is escaped long before.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Gradio starts with inline scripts and makes functions of those that its components are given.
_SOURCES = {
    "default-src": "'self'",
    "script-src": "'self' 'unsafe-inline' 'unsafe-eval'",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "font-src": "'self' data:",
    "connect-src": "'self' data: blob:",
    "worker-src": "'self' blob:",
    "object-src": "'none'",
    "base-uri": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'self'",
}
POLICY = "content-security-policy"
HEADERS = {
    POLICY: "; ".join(f"{name} {allowed}" for name, allowed in _SOURCES.items()),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # an address holds the query, which is no other site's business
}


class SafeHeaders:
    """Adds the headers to every answer; a route that sets one of them itself keeps its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                is_pdf = headers.get("content-type", "").startswith("application/pdf")  # whose viewer a policy may stop
                for name, value in HEADERS.items():
                    if not (is_pdf and name == POLICY):
                        headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
