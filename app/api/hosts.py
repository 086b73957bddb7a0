"""Without access control, accepts only requests whose Host header names this machine.

Otherwise a web site could let its own name resolve to this machine (DNS rebinding) and read the answers: its visitor's
browser would take this server for that site.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import answer_error
from app.types.web_addresses import is_loopback_address


class HostGuard:
    """Middleware. `allowed` are host names besides loopback, such as a proxy's. Requests without Host header pass."""

    def __init__(self, app: ASGIApp, *, allowed: Collection[str] = ()) -> None:
        self._app = app
        self._allowed = frozenset(name.lower() for name in allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host") if scope["type"] == "http" else None
        if host is None or self._is_own(_name_of(host)):
            await self._app(scope, receive, send)
            return
        refusal = answer_error(
            scope["path"],
            421,
            "This server only accepts its own machine as host, such as 127.0.0.1 or localhost. Behind a proxy, add the "
            "host name that it forwards to GIRCSE_ALLOWED_HOSTS.",
        )
        await refusal(scope, receive, send)

    def _is_own(self, name: str) -> bool:
        return name == "localhost" or name in self._allowed or is_loopback_address(name)


def _name_of(host: str) -> str:
    """The host without port and brackets, in lower case: `[::1]:80` gives `::1`."""
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    return name.lower().rstrip(".")
