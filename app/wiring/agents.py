"""MCP: over stdio for one agent on this machine, over HTTP beside the API. Apart, since `mcp` is an extra."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from app.access.authorized_services import AuthorizedServices
from app.agents.server import Ability, PrincipalOf, mcp_server
from app.collections.own_standing import OwnStanding
from app.errors import NotFoundError, UnavailableError
from app.services import Services
from app.types.access import OPERATOR, Principal

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def server_for(services: Services, *, principal: Principal, allowed: Collection[Ability]) -> MCPServer:
    """For one agent, with the principal that it was started as."""

    def require_access(collection: str) -> None:
        if not principal.covers(collection):
            raise NotFoundError(f"No collection named {collection!r}.")

    # Those of the operator, who started it, over what the agent may see.
    standing = OwnStanding(
        services.catalog, services.index, owner=lambda: OPERATOR.name, require_access=require_access, alerts={}
    )
    return mcp_server(services, principal_of=lambda request: principal, standing=standing, allowed=allowed)


def run_on_stdio(services: Services, *, principal: Principal, allowed: Collection[Ability]) -> None:
    server_for(services, principal=principal, allowed=allowed).run("stdio")


def loopback_app(services: Services, *, principal: Principal, allowed: Collection[Ability]) -> Starlette:
    """Served by itself, to programs of this machine alone."""
    return _http_app(server_for(services, principal=principal, allowed=allowed), is_loopback=True)


def mount_agents(api: FastAPI, services: AuthorizedServices) -> None:
    """Beside the API, with the principal of each request. To be mounted before the pages."""
    principal_of = principal_of_requests(services.settings.access_control)
    server = mcp_server(services, principal_of=principal_of, standing=services.standing)
    inner = _http_app(server, is_loopback=not services.settings.access_control)
    # Its own routes, not a mount: at a mount `/mcp` would be redirected to `/mcp/`.
    api.router.routes.extend(inner.routes)
    outer = api.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with outer(app) as state, server.session_manager.run():
            yield state

    api.router.lifespan_context = lifespan


def principal_of_requests(is_controlled: bool) -> PrincipalOf:
    """The principal is in the state of the request; without access control it is the operator."""

    def principal_of(request: Any) -> Principal:
        principal = request.scope.get("state", {}).get("principal") if request is not None else None
        if isinstance(principal, Principal):
            return principal
        if is_controlled:
            raise UnavailableError("Who asks is not known. Show an API key.")
        return OPERATOR

    return principal_of


def _http_app(server: MCPServer, *, is_loopback: bool) -> Starlette:
    """Without sessions: each request stands for itself, whichever of several processes answers it."""
    guard = TransportSecuritySettings(
        # A page of another site may have its name lead to this machine; where keys are shown, that is no way in.
        enable_dns_rebinding_protection=is_loopback,
        allowed_hosts=[f"{host}:*" for host in _LOOPBACK],
        allowed_origins=[f"http://{host}:*" for host in _LOOPBACK],
    )
    return server.streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, json_response=True, transport_security=guard
    )
