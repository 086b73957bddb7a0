"""Without access control, accepts only requests whose Host header names this machine.

Otherwise a web site could let its own name resolve to this machine (DNS rebinding) and read the answers: its visitor's
browser would take this server for that site.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import answer_error
from app.types.web_addresses import is_loopback_address

# Otherwise `127.0.0.1:80@evil.example` would pass as 127.0.0.1, but a browser would read it as evil.example.
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[\w.-]+)(:[0-9]{0,5})?", re.ASCII | re.IGNORECASE)


class HostGuard:
    """Middleware. `allowed` are host names besides loopback, such as a proxy's. Requests without Host header pass."""

    def __init__(self, app: ASGIApp, *, allowed: Collection[str] = ()) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host") if scope["type"] == "http" else None
        if host is None or is_own_host(host, allowed=self._allowed):
            await self._app(scope, receive, send)
            return
        refusal = answer_error(
            scope["path"],
            421,
            "This server only accepts its own machine as host, such as 127.0.0.1 or localhost. Behind a proxy, add the "
            "host name that it forwards to GIRCSE_ALLOWED_HOSTS.",
        )
        await refusal(scope, receive, send)


def is_host(host: str) -> bool:
    return _HOST.fullmatch(host) is not None


def is_own_host(host: str, *, allowed: Collection[str] = ()) -> bool:
    """Whether a Host header names this machine or one of the `allowed` names."""
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = found["name"].strip("[]").lower().rstrip(".")
    return name == "localhost" or name in {each.lower() for each in allowed} or is_loopback_address(name)


def own_address(request: HTTPConnection, *, public_url: str | None, allowed: Collection[str] = ()) -> str:
    """The address of this service, for links in a response; empty if unknown, so that links are paths.

    The Host header alone does not prove it: the client chooses it, and others may read the response.
    """
    if public_url is not None:
        return public_url
    is_own = is_own_host(request.headers.get("host", ""), allowed=allowed)
    return str(request.base_url).rstrip("/") if is_own else ""
