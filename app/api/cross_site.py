"""Rejects state-changing requests that another web site sends through a user's browser (CSRF)."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import answer_error

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class CrossSiteGuard:
    """Middleware that checks Sec-Fetch-Site or, from old browsers, Origin. Programs send neither and pass."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _changes_state(scope) and _is_from_elsewhere(Headers(scope=scope)):
            refusal = answer_error(
                scope["path"], 403, "Another web site sent this request. Open this server's own page instead."
            )
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _changes_state(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] not in SAFE_METHODS


def _is_from_elsewhere(headers: Headers) -> bool:
    """Whether the request comes from another site. A sibling domain (`same-site`) counts as another site, too."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")
