"""The HTTP of uvicorn with bounds on the head of a request: its size, and how long it may take to come.

httptools keeps what it is sent without end, and waits without end; h11 bounds the size alone.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:  # not installed: uvicorn takes h11, too
    HttpToolsProtocol = None  # type: ignore[assignment, misc]

MAX_HEAD_BYTES = 64 * 1024
HEAD_DEADLINE_S = 30.0
_TOO_LARGE = b"431 Request Header Fields Too Large"
_TOO_LATE = b"408 Request Timeout"


class _Deadline:
    """Ends a connection that has begun no request, or has not ended the head of one, in time."""

    def __init__(self, transport: asyncio.Transport, waited_s: float) -> None:
        self._transport = transport
        self._waited_s = waited_s
        self._timer: asyncio.TimerHandle | None = None
        self.begin()

    def begin(self) -> None:
        self.end()
        self._timer = asyncio.get_running_loop().call_later(self._waited_s, self._refuse)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self) -> None:
        refuse(self._transport, _TOO_LATE)


def refuse(transport: asyncio.Transport, status: bytes) -> None:
    if not transport.is_closing():
        transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        transport.close()


class BoundedH11Protocol(H11Protocol):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn._max_incomplete_event_size = MAX_HEAD_BYTES

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = _Deadline(transport, HEAD_DEADLINE_S)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.scope is not None:
            self._deadline.end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.end()
        super().connection_lost(exc)


if HttpToolsProtocol is None:
    BoundedProtocol: type[asyncio.Protocol] = BoundedH11Protocol
else:

    class BoundedHttpToolsProtocol(HttpToolsProtocol):
        _is_in_head = False
        _received = _named = 0  # bytes of the head that came so far, and of the fields that are known

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._deadline = _Deadline(transport, HEAD_DEADLINE_S)

        def connection_lost(self, exc: Exception | None) -> None:
            self._deadline.end()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            if self._is_in_head:
                self._received += len(data)
                if self._received > MAX_HEAD_BYTES:
                    refuse(self.transport, _TOO_LARGE)

        def on_message_begin(self) -> None:
            self._is_in_head = True
            self._received = self._named = 0
            self._deadline.begin()
            super().on_message_begin()

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value) + 4)
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._is_in_head = False
            self._deadline.end()
            super().on_headers_complete()

        def send_400_response(self, msg: str) -> None:
            if self._named > MAX_HEAD_BYTES:
                refuse(self.transport, _TOO_LARGE)
            else:
                super().send_400_response(msg)

        def _count(self, size: int) -> None:
            self._named += size
            if self._named > MAX_HEAD_BYTES:
                raise ValueError("The head of the request is too large.")  # the parser stops; see send_400_response

    BoundedProtocol = BoundedHttpToolsProtocol
