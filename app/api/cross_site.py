"""Refuses state-changing requests that another web site sends through a person's browser."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import problem

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class CrossSiteGuard:
    """Browsers say where a request comes from in Sec-Fetch-Site, old ones in Origin; programs send neither and pass."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _changes_state(scope) and _is_from_elsewhere(Headers(scope=scope)):
            refusal = problem(403, "Another web site sent this request; open this server's own page instead.")
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _changes_state(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] not in SAFE_METHODS


def _is_from_elsewhere(headers: Headers) -> bool:
    """A sibling domain counts as elsewhere: it could set this server's cookies, but has no business here."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")
