"""Refuses state-changing requests that another web site sends through a person's browser."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import problem

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class CrossSiteGuard:
    """Browsers say where a request comes from in Sec-Fetch-Site; programs send none and pass."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _changes_state(scope) and Headers(scope=scope).get("sec-fetch-site") == "cross-site":
            refusal = problem(403, "Another web site sent this request; open this server's own page instead.")
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _changes_state(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] not in SAFE_METHODS
