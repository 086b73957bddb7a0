"""Serves the embedded engine on port 6333, in the place of a Qdrant node, for tests that have no image of Qdrant.

There is no replication. A node that is told of a first node (`--bootstrap`) forwards every connection to it: one engine
behind several names.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from app.edge.connection import EdgeConnection
from app.edge.server import create_app
from app.edge.shards import Shards

PORT = 6333
STORAGE = Path("/qdrant/storage")
# Qdrant answers these without a key.
OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz"})
PIECE_BYTES = 65_536


class Health:
    """Answers health checks, and hands everything else on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in OPEN_PATHS:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok"})
            return
        await self._app(scope, receive, send)


def serve_engine() -> None:
    key = os.environ["QDRANT__SERVICE__API_KEY"]
    app = create_app(Shards(STORAGE), EdgeConnection(port=PORT, token=key, pid=os.getpid()), STORAGE)
    uvicorn.run(Health(app), host="0.0.0.0", port=PORT, log_level="warning", access_log=False, ws="none")


async def forward(first_node: str) -> None:
    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection(first_node, PORT)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer))

    async with await asyncio.start_server(join, "0.0.0.0", PORT) as server:
        await server.serve_forever()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uri")
    parser.add_argument("--bootstrap", help="Address of the first node.")
    first_node = parser.parse_args().bootstrap
    if first_node is None:
        serve_engine()
    else:
        asyncio.run(forward(str(urlsplit(first_node).hostname)))


if __name__ == "__main__":
    main()
