"""Closes a connection so that an early refusal reaches a client that is still sending.

Closing a socket with unread input resets the connection, and the reset discards data that the client has not read yet:
the client sees a broken connection instead of 413 or 408 (RFC 9112, section 9.6). So this closes the sending half first
and discards input until the client closes too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

LINGER_S = 5.0


class LingeringTransport:
    """A transport whose `close` lets the client read the response first; all else is the inner transport's.

    is_amid_request: whether more of a request will come, so that closing at once would lose the response.
    """

    def __init__(self, transport: asyncio.Transport, is_amid_request: Callable[[], bool]) -> None:
        self.inner = transport
        self._is_amid_request = is_amid_request
        self._timer: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def close(self) -> None:
        if self._timer is not None or self.inner.is_closing():
            return
        if not self._is_amid_request() or not self.inner.can_write_eof():  # TLS cannot close one direction only
            self.inner.close()
            return
        self.inner.write_eof()
        self.inner.resume_reading()
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self.inner.close)

    def end(self) -> None:
        """Stops waiting, because the connection is lost or the server stops."""
        if self._timer is not None:
            self._timer.cancel()
        self.inner.close()

    def is_closing(self) -> bool:
        return self._timer is not None or self.inner.is_closing()

    def pause_reading(self) -> None:
        if self._timer is None:
            self.inner.pause_reading()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._timer is None:
            self.inner.write(data)
