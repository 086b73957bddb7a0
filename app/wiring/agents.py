"""Runs the MCP server over stdio for one local agent, or over HTTP beside the API. `mcp` is an optional extra."""

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
    """An MCP server for one agent, which acts as the given principal."""

    def require_access(collection: str) -> None:
        if not principal.covers(collection):
            raise NotFoundError(f"No collection named {collection!r}.")

    # The standing searches of the operator, who started it, limited to collections that the agent may read.
    standing = OwnStanding(
        services.catalog, services.index, owner=lambda: OPERATOR.name, require_access=require_access, alerts={}
    )
    return mcp_server(services, principal_of=lambda request: principal, standing=standing, allowed=allowed)


def run_on_stdio(services: Services, *, principal: Principal, allowed: Collection[Ability]) -> None:
    server_for(services, principal=principal, allowed=allowed).run("stdio")


def loopback_app(services: Services, *, principal: Principal, allowed: Collection[Ability]) -> Starlette:
    """The MCP server as a separate HTTP application, for programs on this machine only."""
    return _http_app(server_for(services, principal=principal, allowed=allowed), is_loopback=True)


def mount_agents(api: FastAPI, services: AuthorizedServices) -> None:
    """Add the MCP routes to the API. They act as each request's principal. Call it before mounting the pages."""
    principal_of = principal_of_requests(services.settings.access_control)
    server = mcp_server(services, principal_of=principal_of, standing=services.standing)
    inner = _http_app(server, is_loopback=not services.settings.access_control)
    # Routes instead of a mount, which would redirect `/mcp` to `/mcp/`.
    api.router.routes.extend(inner.routes)
    outer = api.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with outer(app) as state, server.session_manager.run():
            yield state

    api.router.lifespan_context = lifespan


def principal_of_requests(is_controlled: bool) -> PrincipalOf:
    """A function that returns a request's principal from its state; without access control, the operator."""

    def principal_of(request: Any) -> Principal:
        principal = request.scope.get("state", {}).get("principal") if request is not None else None
        if isinstance(principal, Principal):
            return principal
        if is_controlled:
            raise UnavailableError("The caller is unknown. Send an API key.")
        return OPERATOR

    return principal_of


def _http_app(server: MCPServer, *, is_loopback: bool) -> Starlette:
    """The HTTP application without sessions, so that any of several processes can answer each request."""
    guard = TransportSecuritySettings(
        # Protects against DNS rebinding. With access control the API keys already do.
        enable_dns_rebinding_protection=is_loopback,
        allowed_hosts=[f"{host}:*" for host in _LOOPBACK],
        allowed_origins=[f"http://{host}:*" for host in _LOOPBACK],
    )
    return server.streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, json_response=True, transport_security=guard
    )
