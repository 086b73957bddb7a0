"""`gircse mcp`: an MCP (Model Context Protocol) server with which agents search."""

from __future__ import annotations

from typing import Annotated, Any

import typer
import uvicorn

from app.commands.serve import GRACE_S, Host, Model, Port, listening_socket
from app.commands.wiring import open_services, wiring
from app.errors import InputError
from app.settings import load_settings
from app.types.access import Principal, Role
from embedder.server.http_guard import BoundedProtocol

ABILITIES = ("search", "answer", "refine", "fetch", "news")


def mcp(
    allow: Annotated[str, typer.Option(help="Allowed tools, of search, answer, refine, fetch and news.")] = ",".join(
        ABILITIES
    ),
    collection: Annotated[
        list[str] | None,
        typer.Option("--collection", "-c", help="Limit the agent to this collection; * matches any characters."),
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Listen on a local port, at /mcp, instead of stdio.")] = False,
    model: Model = None,
    host: Host = None,
    port: Port = None,
) -> None:
    """Run an MCP server for agents: they can search and read, but change nothing. Agents start it and use its stdio.

    Example: gircse mcp --allow search,fetch --collection letters
    """
    settings = load_settings(model=model, host=host, port=port)
    allowed = _abilities(allow)
    principal = Principal("mcp", Role.READER, tuple(collection or ("*",)))
    if http and settings.is_open_to_network:
        raise InputError(
            f"--http only listens on this machine, not on {settings.host}. For the network run the whole server, which "
            "requires API keys: GIRCSE_MCP=true GIRCSE_ACCESS_CONTROL=true gircse serve"
        )
    agents = _wiring()
    if not http:
        with open_services(settings) as services:
            agents.run_on_stdio(services, principal=principal, allowed=allowed)
        return
    with listening_socket(settings) as listener, open_services(settings) as services:
        served, port_taken = (
            agents.loopback_app(services, principal=principal, allowed=allowed),
            listener.getsockname()[1],
        )
        typer.echo(f"Listening: http://127.0.0.1:{port_taken}/mcp   (Ctrl-C stops)")
        config = uvicorn.Config(
            served,
            http=BoundedProtocol,
            ws="none",
            log_level="warning",
            timeout_graceful_shutdown=GRACE_S,
            server_header=False,
        )
        uvicorn.Server(config).run(sockets=[listener])


def _abilities(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in ABILITIES]
    if unknown or not names:
        raise typer.BadParameter(f"use any of {', '.join(ABILITIES)}, separated by commas", param_hint="--allow")
    return names


def _wiring() -> Any:
    try:
        return wiring("agents")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise InputError("Agents need the package mcp: pip install 'gircse-search[mcp]'") from None
