"""The head of a request is bounded by every server that is started: its size, and how long it may take."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from patience import PATIENCE_S, wait_until

from embedder.server import http_guard, lingering
from embedder.server.http_guard import MAX_HEAD_BYTES, BoundedH11Protocol, BoundedProtocol
from embedder.server.networks import network_of

PROTOCOLS = list(dict.fromkeys((BoundedProtocol, BoundedH11Protocol)))
ROOT = Path(__file__).parents[2]


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["path"] == "/refuse":
        await send({"type": "http.response.start", "status": 413, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b"too large"})
        return
    if scope["path"] == "/early":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
        return
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"7")]})
    await send({"type": "http.response.body", "body": b"%07d" % len(body)})


@contextmanager
def served(protocol: type, trusted_proxies: str = "192.0.2.1") -> Iterator[int]:
    server = uvicorn.Server(
        uvicorn.Config(
            application, http=protocol, lifespan="off", log_level="critical", forwarded_allow_ips=trusted_proxies
        )
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            wait_until(lambda: server.started)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(params=PROTOCOLS, ids=lambda each: each.__name__)
def ask(request: pytest.FixtureRequest) -> Iterator[Callable[..., bytes]]:
    with served(request.param) as port:

        def answer(*pieces: bytes | float) -> bytes:
            """All that comes until the server closes the connection. A number waits so many seconds."""
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
                found = b""
                for piece in pieces:
                    if isinstance(piece, bytes):
                        connection.sendall(piece)
                    else:
                        time.sleep(piece)
                while more := connection.recv(65_536):
                    found += more
                return found

        yield answer


def test_a_usual_request_is_answered(ask: Callable[..., bytes]) -> None:
    head = (
        b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 200000\r\nX: " + b"x" * 8_000 + b"\r\n\r\n"
    )
    assert ask(head, b"y" * 200_000).endswith(b"0200000")


@pytest.mark.parametrize(
    "pieces",
    [
        [b"GET / HTTP/1.1\r\nHost: a\r\nX: ", *[b"x" * 8_000] * 20],
        [b"GET / HTTP/1.1\r\nHost: a\r\n", *[b"".join(b"X-%d: y\r\n" % number for number in range(1_000))] * 20],
        [b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: " + b"x" * 2 * MAX_HEAD_BYTES + b"\r\n\r\n"],
        [b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", *[b"x" * 8_000] * 20],
        [b"GET /" + b"a" * 2 * MAX_HEAD_BYTES + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"],
    ],
    ids=["endless", "many", "long", "trailer", "address"],
)
def test_a_large_head_is_refused(ask: Callable[..., bytes], pieces: list[bytes]) -> None:
    assert ask(*pieces)[:12] in (b"HTTP/1.1 431", b"HTTP/1.1 400")


def test_a_second_host_is_refused(ask: Callable[..., bytes]) -> None:
    assert ask(b"GET / HTTP/1.1\r\nHost: a\r\nHOST: b\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 400")


ANSWERED = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize(
    "begin",
    [[b"G"], [b"GET / HTTP/1.1\r\nHost: a\r\nX: x"], [ANSWERED, 0.1, b"GET / HT"], [ANSWERED, 0.1, b"\r\n"]],
    ids=["first byte", "half", "second", "empty line"],
)
def test_a_head_that_does_not_come_is_not_waited_for(
    ask: Callable[..., bytes], begin: list[bytes | float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_guard, "HEAD_DEADLINE_S", 0.5)
    found = ask(*begin)
    assert b"HTTP/1.1 408" in found or b"HTTP/1.1 400" in found  # h11 refuses an empty line
    assert found.count(b"HTTP/1.1 200") == begin.count(ANSWERED)


def test_a_connection_that_a_browser_opened_in_advance_is_left_open(
    ask: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_guard, "HEAD_DEADLINE_S", 0.2)
    assert ask(0.6, ANSWERED, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").count(b"200 OK") == 2


def test_a_body_may_take_longer(ask: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_guard, "HEAD_DEADLINE_S", 0.2)
    head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"
    assert ask(head, 0.6, b"ab").endswith(b"0000002")


@pytest.mark.parametrize(
    "upgrade",
    [
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\n",
        b"Upgrade: websocket\r\nConnection: upgrade\r\nConnection: x\r\n",
    ],
    ids=["h2c", "websocket"],
)
@pytest.mark.parametrize(
    ("framing", "body"),
    [(b"Content-Length: 9\r\n", b"the\0 body"), (b"Transfer-Encoding: chunked\r\n", b"9\r\nthe\0 body\r\n0\r\n\r\n")],
    ids=["length", "chunked"],
)
def test_a_request_that_proposes_another_protocol_keeps_its_body(
    ask: Callable[..., bytes], upgrade: bytes, framing: bytes, body: bytes
) -> None:
    head = b"POST /?a=b HTTP/1.1\r\nHost: a\r\n" + upgrade + framing + b"\r\n"
    last = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    for pieces in (
        [head + body + last],
        [ANSWERED, 0.1, head[:-3], 0.1, head[-3:], 0.1, body[:4], 0.1, body[4:], last],
    ):
        found = ask(*pieces)
        assert found.count(b"0000009") == 1
        assert found.endswith(b"0000000")
        assert found.count(b"HTTP/1.1 200") == pieces.count(ANSWERED) + 2


@pytest.mark.parametrize("rest", [b"xxxx", b"x", b"xxxx" + ANSWERED], ids=["late", "never", "late, and another"])
def test_a_request_that_has_its_answer_gets_no_second_one(
    ask: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, rest: bytes
) -> None:
    """Its body arrives, or does not arrive, after the answer."""
    monkeypatch.setattr(http_guard, "HEAD_DEADLINE_S", 0.5)
    head = b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
    found = ask(head, 0.2, b"x", 0.2, rest)
    assert b"HTTP/1.1 408" not in found
    assert found.count(b"HTTP/1.1 ") == 1 + rest.count(ANSWERED)


REFUSED = b"POST /refuse HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        [REFUSED + b"Content-Length: 20000000\r\n\r\n", *[b"x" * 1_000_000] * 20],
        [REFUSED + b"Transfer-Encoding: chunked\r\n\r\n", *[b"8000\r\n" + b"x" * 0x8000 + b"\r\n"] * 200],
        [REFUSED + b"Content-Length: 5\r\n\r\n", 0.2, b"x", 0.2, b"x", 0.2, b"x"],
        [b"no HTTP\r\n\r\n", *[b"x" * 100_000] * 50],
    ],
    ids=["large", "chunked", "slow", "nonsense"],
)
def test_a_refusal_reaches_a_client_that_is_still_sending(
    ask: Callable[..., bytes], pieces: list[bytes | float]
) -> None:
    found = ask(*pieces)
    assert found.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))
    assert (b"too large" in found) == found.startswith(b"HTTP/1.1 413")


def test_a_client_that_never_ends_is_left_in_the_end(
    ask: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lingering, "LINGER_S", 0.3)
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        ask(REFUSED + b"Content-Length: 20000000\r\n\r\n", *[b"x", 0.1] * 100)


def test_requests_in_one_piece_are_all_answered(ask: Callable[..., bytes]) -> None:
    body = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + b"y" * 100_000
    last = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    found = ask(body + ANSWERED + last[:20], last[20:])
    assert found.count(b"HTTP/1.1 200") == 3


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("proxies", ["192.0.2.1", "127.0.0.0/8"], ids=["an address", "a proxy"])
def test_one_address_has_so_many_connections_and_a_proxy_any_number(
    protocol: type, proxies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_guard, "MAX_CONNECTIONS_OF_ADDRESS", 3)
    with served(protocol, proxies) as port, ExitStack() as opened:

        def connect() -> socket.socket:
            return opened.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S))

        def status(connection: socket.socket) -> bytes:
            with suppress(ConnectionResetError, BrokenPipeError):  # refused before it could ask
                connection.sendall(ANSWERED)
            return connection.recv(65_536)[9:12]

        held = [connect() for _ in range(3)]
        assert [status(each) for each in held] == [b"200"] * 3
        assert connect().recv(12) == b"HTTP/1.1 429" if proxies == "192.0.2.1" else status(connect()) == b"200"
        held.pop().close()
        wait_until(lambda: status(connect()) == b"200")


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("testclient", None),
    ],
)
def test_all_addresses_of_an_ipv6_network_count_as_one(address: str, network: str | None) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("proxies", ["192.0.2.1", "127.0.0.0/8"], ids=["an address", "a proxy"])
def test_connections_leave_room_for_files(protocol: type, proxies: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a free file descriptor nothing could be answered."""
    monkeypatch.setattr(http_guard, "room_for_connections", lambda: 3)
    with served(protocol, proxies) as port, ExitStack() as opened:
        held = [opened.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S)) for _ in range(4)]
        assert held[3].recv(12) == b"HTTP/1.1 503"
        held[0].sendall(ANSWERED)
        assert held[0].recv(65_536)[9:12] == b"200"


def test_as_many_files_may_be_open_as_the_system_allows() -> None:
    code = """
import resource
from embedder.server.open_files import room_for_connections
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (300, min(hard, 5_000)))
print(room_for_connections(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    room, soft, hard = map(int, found.split())
    assert soft == hard
    assert room == soft - 192


def test_every_server_is_started_with_it() -> None:
    started = {
        str(path.relative_to(ROOT)): path.read_text("utf-8").count("uvicorn.Config(")
        for folder in ("app", "embedder")
        for path in (ROOT / folder).rglob("*.py")
        if "uvicorn.Config(" in path.read_text("utf-8")
    }
    assert started
    for name, count in started.items():
        code = (ROOT / name).read_text("utf-8")
        assert code.count("http=BoundedProtocol") == code.count('ws="none"') == count, name
