"""Cancels work for a client that has disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from embedder.server.failures import ClientGoneError

Result = TypeVar("Result")


async def unless_gone(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Returns the result of `work`. Once the client disconnects, cancels `work` and raises ClientGoneError."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_wait_until_gone(request))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGoneError
        return working.result()
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _wait_until_gone(request: Request) -> None:
    """Waits for the disconnect; after the body, no other message can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
