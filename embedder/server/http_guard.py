"""uvicorn's HTTP protocols with limits on the head of a request (size, and time from its first byte) and on the
connections, per address and in total.

httptools buffers a head, or the trailer fields behind a body, without limit, and waits for it without limit; h11 limits
only the size. httptools also drops the body of a request with `Upgrade`, which Java's client sends by default.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from embedder.server.lingering import LingeringTransport
from embedder.server.networks import network_of
from embedder.server.open_files import room_for_connections

try:
    import httptools
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:  # not installed: uvicorn can use h11 instead
    HttpToolsProtocol = None  # type: ignore[assignment, misc]

MAX_HEAD_BYTES = 64 * 1024
HEAD_DEADLINE_S = 30.0
MAX_CONNECTIONS_OF_ADDRESS = 256  # of a network, for IPv6
_TOO_MANY = b"429 Too Many Requests"
_NO_ROOM = b"503 Service Unavailable"
_TOO_LARGE = b"431 Request Header Fields Too Large"
_TOO_LATE = b"408 Request Timeout"


class _Bounded:
    """Ends a connection whose request head takes too long, unless a response is under way.

    Connections without a single byte stay open: browsers open some in advance, and would show a 408 there as the
    response to their next request.
    """

    app: Any
    client: tuple[str, int] | None
    connections: set[Any]
    cycle: Any
    timeout_keep_alive: int
    timeout_keep_alive_handler: Callable[[], None]
    timeout_keep_alive_task: asyncio.TimerHandle | None
    transport: asyncio.Transport
    _lingering: LingeringTransport
    _deadline: asyncio.TimerHandle | None = None
    _is_amid_request = False

    def connection_made(self, transport: Any) -> None:
        self._lingering = LingeringTransport(transport, lambda: self._is_amid_request)
        super().connection_made(self._lingering)  # type: ignore[misc]
        if self.client is not None and len(self.connections) > room_for_connections():  # commands always get in
            self.refuse(_NO_ROOM)
        elif self._is_one_too_many():
            self.refuse(_TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)  # type: ignore[misc]
        self._lingering.end()

    def _is_one_too_many(self) -> bool:
        """Whether the address has too many connections. A trusted proxy is exempt: it serves many clients."""
        if self.client is None:
            return False
        address = self.client[0]
        if isinstance(self.app, ProxyHeadersMiddleware) and address in self.app.trusted_hosts:
            return False
        network = network_of(address)
        clients = [each.client[0] for each in self.connections if each.client is not None]
        return network is not None and sum(network_of(each) == network for each in clients) > MAX_CONNECTIONS_OF_ADDRESS

    def shutdown(self) -> None:
        super().shutdown()  # type: ignore[misc]
        if self.transport.is_closing():
            self._lingering.end()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._is_amid_request = True
        super().data_received(data)  # type: ignore[misc]
        if self.transport.get_protocol() is not self:  # another protocol has taken over
            self._wait_no_more()
            return
        self._is_amid_request = self._awaits_more()
        if self._is_answering():
            self._wait_no_more()
        elif self._is_amid_request:
            self._wait()
        else:  # the late end of a request that was answered before
            self._wait_no_more()
            self._close_when_idle()

    def _awaits_more(self) -> bool:
        """Whether the client has sent a part of a request whose rest is missing."""
        return self._is_amid_request

    def refuse(self, status: bytes) -> None:
        """Sends `status` and closes. Only closes if another response is due: the client would mistake the bytes for
        it."""
        if self.transport.is_closing():
            return
        if self._may_refuse():
            self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _may_refuse(self) -> bool:
        return not self._is_answering()

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().call_later(HEAD_DEADLINE_S, self.refuse, _TOO_LATE)

    def _close_when_idle(self) -> None:
        """uvicorn arms this timer after a response only, and every byte disarms it."""
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = asyncio.get_running_loop().call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _wait_no_more(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class BoundedH11Protocol(_Bounded, H11Protocol):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn._max_incomplete_event_size = MAX_HEAD_BYTES

    def _awaits_more(self) -> bool:
        sent, _ = self.conn.trailing_data
        return self.conn.their_state in (h11.SEND_BODY, h11.ERROR) or bool(sent)

    def _may_refuse(self) -> bool:
        return super()._may_refuse() and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE)


if HttpToolsProtocol is None:
    BoundedProtocol: type[asyncio.Protocol] = BoundedH11Protocol
else:

    class BoundedHttpToolsProtocol(_Bounded, HttpToolsProtocol):
        _silent = 0  # bytes since the last parser event other than a field
        _named = 0  # bytes of fields in one head
        _hosts = 0  # in one head; h11 itself rejects a second one
        _has_told = False
        _is_in_body = False
        _data = b""

        def data_received(self, data: bytes) -> None:
            self._has_told = False
            self._data = data
            super().data_received(data)
            self._silent = 0 if self._has_told else self._silent + len(data)
            if self._silent > MAX_HEAD_BYTES:
                self.refuse(_TOO_LARGE)

        def on_message_begin(self) -> None:
            self._named = self._hosts = 0
            self._is_amid_request = True
            self._is_in_body = False
            super().on_message_begin()

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value) + 4)
            self._hosts += name.lower() == b"host"
            if self._hosts > 1:  # a proxy may have checked the other one (RFC 9112, section 3.2)
                raise ValueError("The request names more than one host.")
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._has_told = self._is_in_body = True
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._has_told = True
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._has_told = True
            self._is_amid_request = self._is_in_body = False
            super().on_message_complete()

        def _should_upgrade(self) -> bool:
            """False for CONNECT. Called only for requests that httptools treats as an upgrade; their bodies would be
            dropped."""
            return bool(self.scope["method"] != "CONNECT")

        def handle_websocket_upgrade(self) -> None:
            """Hands the connection to h11, which reads a body in spite of `Upgrade`, unless web sockets are served.

            A server may ignore `Upgrade`, and then answers the request itself (RFC 9110, section 7.8).
            """
            if self._get_upgrade() == b"websocket" and self.ws_protocol_class is not None:
                super().handle_websocket_upgrade()
            elif self._is_answering():  # two protocols cannot answer on one connection
                self.transport.close()
            else:
                self._hand_over(self._data[_end_of_head() :])

        def _hand_over(self, rest: bytes) -> None:
            self._wait_no_more()
            self.connections.discard(self)
            other = BoundedH11Protocol(
                config=self.config, server_state=self.server_state, app_state=self.app_state, _loop=self.loop
            )
            version = self.scope["http_version"].encode("ascii")
            head = [self.scope["method"].encode("ascii") + b" " + self.url + b" HTTP/" + version]
            head += [name + b": " + value for name, value in self.headers]
            transport = self._lingering.inner
            transport.set_protocol(other)
            other.connection_made(transport)
            other.data_received(b"\r\n".join([*head, b"", b""]) + rest)

        def send_400_response(self, msg: str) -> None:
            if self._named > MAX_HEAD_BYTES:
                self.refuse(_TOO_LARGE)
            elif self._may_refuse():
                super().send_400_response(msg)
            else:
                self.transport.close()

        def _may_refuse(self) -> bool:
            is_unanswered = not self.pipeline and self._is_answering() and not self.cycle.response_started
            is_due = super()._may_refuse() and not self._is_in_body  # else the request has its response already
            return is_due or (is_unanswered and self.cycle.more_body)

        def _count(self, size: int) -> None:
            self._named += size
            if self._named > MAX_HEAD_BYTES:
                raise ValueError("The head of the request is too large.")  # stops the parser; see send_400_response

    def _end_of_head() -> int:
        """The offset at which httptools stopped, from the exception that is being handled: it is nowhere else."""
        stop = sys.exc_info()[1]
        return int(stop.args[0]) if isinstance(stop, httptools.HttpParserUpgrade) else 0

    BoundedProtocol = BoundedHttpToolsProtocol
