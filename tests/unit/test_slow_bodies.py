"""Bodies that come a byte at a time: they block nobody, and are refused in the end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import httpx
import pytest
from api_application import api_of
from patience import PATIENCE_S
from served import served

from app.api.bodies import BodyGuard, BodyLimits

HEAD = b"POST /api/v1/search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
QUESTION = b'{"query": "cat", "collection": "library"}'
LIMIT_S = 0.6  # instead of half a minute


@pytest.fixture
def address(toy_services: Any) -> Iterator[tuple[str, int]]:
    toy_services.add("The cat sleeps on the sofa.")
    api = api_of(toy_services.services)
    with served(BodyGuard(api, limits=BodyLimits(10_000, grace_s=LIMIT_S, bytes_per_s=1000))) as url:
        yield "127.0.0.1", int(url.rpartition(":")[2])


def answer_of(connection: socket.socket) -> bytes:
    """All that comes until the server closes."""
    connection.settimeout(20)
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def trickle(connection: socket.socket, data: bytes, done: threading.Event) -> None:
    """A byte every now and then, until the server has had enough."""
    for byte in data:
        if done.wait(0.05):
            return
        try:
            connection.sendall(bytes([byte]))
        except OSError:
            return


@contextmanager
def trickling(address: tuple[str, int], first: bytes, rest: bytes) -> Iterator[socket.socket]:
    done = threading.Event()
    with closing(socket.create_connection(address)) as connection:
        connection.sendall(first)
        sender = threading.Thread(target=trickle, args=(connection, rest, done), daemon=True)
        sender.start()
        try:
            yield connection
        finally:
            done.set()
            sender.join(5)


def search(address: tuple[str, int]) -> int:
    url = f"http://{address[0]}:{address[1]}/api/v1/search"
    return httpx.post(
        url, content=QUESTION, headers={"content-type": "application/json"}, timeout=PATIENCE_S
    ).status_code


@pytest.mark.parametrize("framing", [b"Content-Length: 5000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n1388\r\n"])
def test_body_that_trickles_is_refused(address: tuple[str, int], framing: bytes) -> None:
    with trickling(address, HEAD + framing, b'{"query": "' + b"x" * 1000) as connection:
        assert search(address) == 200
        answer = answer_of(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"application/problem+json" in answer
    assert answer.count(b"HTTP/1.1") == 1


def test_many_slow_clients_block_nobody(address: tuple[str, int]) -> None:
    connections = [socket.create_connection(address) for _ in range(50)]
    try:
        for connection in connections:
            connection.sendall(HEAD + b"Content-Length: 5000\r\n\r\n{")
        assert [search(address) for _ in range(3)] == [200] * 3
        assert all(answer_of(connection).startswith(b"HTTP/1.1 408 ") for connection in connections)
    finally:
        for connection in connections:
            connection.close()


def test_body_in_pieces_is_taken_while_it_comes_fast_enough(address: tuple[str, int]) -> None:
    big = b'{"query": "cat", "collection": "library"' + b" " * 3000 + b"}"  # gives three seconds more
    head = HEAD + b"Connection: close\r\nContent-Length: " + str(len(big)).encode() + b"\r\n\r\n"
    with closing(socket.create_connection(address)) as connection:
        connection.sendall(head + big[:2500])
        threading.Event().wait(2 * LIMIT_S)
        connection.sendall(big[2500:])
        assert answer_of(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"Transfer-Encoding: identity, chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    ],
)
def test_what_ends_at_two_places_is_refused_and_nothing_after_it_read(address: tuple[str, int], framing: bytes) -> None:
    smuggled = b"GET /api/v1/collections HTTP/1.1\r\nHost: x\r\n\r\n"
    with closing(socket.create_connection(address)) as connection:
        connection.sendall(HEAD + framing + b"\r\n\r\n0\r\n\r\n" + smuggled)
        answer = answer_of(connection)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1
