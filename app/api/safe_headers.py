"""Security headers: pages may not contact other servers, other sites may not show them in a frame, and caches keep
nothing private.

This is the second line of defence; document contents are escaped when they are rendered.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.types.shared_files import SHARED_FILES

# Gradio needs inline scripts to start, and `eval` for the JavaScript of its components.
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
    "referrer-policy": "same-origin",  # the address contains the query, which must not leak to other sites
}
CACHE = "cache-control"
# A proxy keeps no response for other people, and a browser asks again before it shows one, as after a logout.
CACHED_BY_NOBODY_ELSE = "private, no-cache"


class SafeHeaders:
    """Middleware that adds the headers to every response, unless the route has set them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                # A content security policy can block the browser's PDF viewer.
                is_pdf = headers.get("content-type", "").startswith("application/pdf")
                for name, value in HEADERS.items():
                    if not (is_pdf and name == POLICY):
                        headers.setdefault(name, value)
                if not scope["path"].startswith(SHARED_FILES):
                    headers.setdefault(CACHE, CACHED_BY_NOBODY_ELSE)
            await send(message)

        await self._app(scope, receive, send_with_headers)
