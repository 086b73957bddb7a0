"""The HTTP server of `gircse up` and `serve`: listens on its port, and for commands on a socket in the home folder."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import webbrowser
from types import FrameType

import typer
import uvicorn

from app.api.access import AsOperator
from app.runtime.service_socket import ServiceSocket
from embedder.server.http_guard import BoundedProtocol


class AnnouncingServer(uvicorn.Server):
    """Prints its address once it is ready, and records Ctrl-C, which the event loop's shutdown can swallow.

    `for_commands` is the socket on which commands with the same home send requests, with the operator's rights.
    """

    def __init__(
        self, config: uvicorn.Config, *, url: str, open_page: bool, for_commands: ServiceSocket | None
    ) -> None:
        super().__init__(config)
        self._url = url
        self._open_page = open_page
        self._for_commands = for_commands
        self.interrupted = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.interrupted = self.interrupted or sig == signal.SIGINT
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self._for_commands is not None:
            await self._listen_to_commands(self._for_commands)
        gc.freeze()  # present objects live as long as the process; scanning them would pause every request
        typer.echo(f"Ready: {self._url}   (API: {self._url}/docs, Ctrl-C stops)")
        if self._open_page:
            webbrowser.open(self._url)

    async def _listen_to_commands(self, service_socket: ServiceSocket) -> None:
        config = uvicorn.Config(
            AsOperator(self.config.app),  # type: ignore[arg-type]
            http=BoundedProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        config.load()

        def new_connection() -> asyncio.Protocol:
            return config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=self.server_state, app_state=self.lifespan.state
            )

        loop = asyncio.get_running_loop()
        self.servers.append(await loop.create_unix_server(new_connection, sock=service_socket.listener))
        service_socket.announce()
