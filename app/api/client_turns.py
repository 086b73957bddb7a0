"""Lets requests of many clients take turns at slow work that holds a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ClientTurns:
    """At most `at_once` turns run at a time, and at most `of_client` of one client; the others wait without a thread.

    So a client that sends many requests delays mostly itself. Use it from one event loop only.
    """

    def __init__(self, *, at_once: int, of_client: int) -> None:
        self._all = asyncio.Semaphore(at_once)
        self._of_client = of_client
        # By client, while it has turns that wait or run: its semaphore, and the number of these turns.
        self._clients: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        own, count = self._clients.get(client) or (asyncio.Semaphore(self._of_client), 0)
        self._clients[client] = own, count + 1
        try:
            async with own, self._all:
                yield
        finally:
            own, count = self._clients.pop(client)
            if count > 1:
                self._clients[client] = own, count - 1
