"""Without access control, answers only to names of this machine: a page of another site may have its own name lead here
(DNS rebinding), and its browser would take this server for that site."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import problem
from app.types.web_addresses import is_loopback_address


class HostGuard:
    """`allowed` are names besides those of loopback, as a proxy may pass them on. Programs that send none pass."""

    def __init__(self, app: ASGIApp, *, allowed: Collection[str] = ()) -> None:
        self._app = app
        self._allowed = frozenset(name.lower() for name in allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host") if scope["type"] == "http" else None
        if host is None or self._is_own(_name_of(host)):
            await self._app(scope, receive, send)
            return
        refusal = problem(
            421,
            "This server answers to names of its own machine alone, as 127.0.0.1 or localhost. Behind a proxy name the "
            "host that it passes on in GIRCSE_ALLOWED_HOSTS.",
        )
        await refusal(scope, receive, send)

    def _is_own(self, name: str) -> bool:
        return name == "localhost" or name in self._allowed or is_loopback_address(name)


def _name_of(host: str) -> str:
    """Without the port: `[::1]:80`, `localhost:80`."""
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    return name.lower().rstrip(".")
