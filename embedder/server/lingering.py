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


class LingeringTransport(asyncio.Transport):
    """A transport whose `close` lets the client read the response first.

    is_amid_request: whether more of a request will come, so that closing at once would lose the response.
    """

    def __init__(self, transport: asyncio.Transport, is_amid_request: Callable[[], bool]) -> None:
        super().__init__()
        self.inner = self._transport = transport
        self._is_amid_request = is_amid_request
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        if self._timer is not None or self._transport.is_closing():
            return
        if not self._is_amid_request() or not self._transport.can_write_eof():  # TLS cannot close one direction only
            self._transport.close()
            return
        self._transport.write_eof()
        self._transport.resume_reading()
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._transport.close)

    def end(self) -> None:
        """Stops waiting, because the connection is lost or the server stops."""
        if self._timer is not None:
            self._timer.cancel()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._timer is not None or self._transport.is_closing()

    def abort(self) -> None:
        self._transport.abort()

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def pause_reading(self) -> None:
        if self._timer is None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._timer is None:
            self._transport.write(data)

    def write_eof(self) -> None:
        self._transport.write_eof()

    def can_write_eof(self) -> bool:
        return self._transport.can_write_eof()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._transport.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._transport.get_protocol()
