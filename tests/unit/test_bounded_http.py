"""What a server of ours answers is bounded as a whole: by bytes, by what it unpacks to, and by time."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator

import httpx
import pytest

from app.wiring.bounded_http import BoundedAsyncClient, BoundedClient


def endless() -> Iterator[bytes]:
    while True:
        yield b"x" * 1_000


PACKED = {"content-encoding": "gzip"}
ANSWERS = {
    "exceeds 5,000 bytes": lambda _: httpx.Response(200, stream=Parts(endless())),
    "compressed as 'gzip'": lambda _: httpx.Response(200, headers=PACKED, stream=Parts(iter([gzip.compress(b"x")]))),
}


class Parts(httpx.SyncByteStream, httpx.AsyncByteStream):
    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[bytes]:
        return self._parts

    async def __aiter__(self):  # type: ignore[no-untyped-def]
        for part in self._parts:
            yield part


@pytest.mark.parametrize("told", ANSWERS)
def test_what_is_too_much_is_refused(told: str) -> None:
    transport = httpx.MockTransport(ANSWERS[told])
    with (
        BoundedClient(transport=transport, max_bytes=5_000) as client,
        pytest.raises(httpx.RemoteProtocolError, match=told),
    ):
        client.post("http://host/", json={})

    async def ask() -> None:
        async with BoundedAsyncClient(transport=transport, max_bytes=5_000) as client:
            await client.post("http://host/", json={})

    with pytest.raises(httpx.RemoteProtocolError, match=told):
        asyncio.run(ask())


def test_a_body_has_the_time_of_one_read_as_a_whole() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=Parts(endless())))
    with (
        BoundedClient(transport=transport, timeout=0.05, max_bytes=10**12) as client,
        pytest.raises(httpx.ReadTimeout, match="too long"),
    ):
        client.get("http://host/")


def test_an_answer_is_as_it_was_sent() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept-encoding"] == "identity"
        return httpx.Response(201, headers={"x-a": "b"}, stream=Parts(iter([b'{"a"', b": 1}"])))

    with BoundedClient(transport=httpx.MockTransport(answer)) as client:
        found = client.post("http://host/path", json={})
    assert (found.status_code, found.headers["x-a"], found.json()) == (201, "b", {"a": 1})
    assert str(found.request.url) == "http://host/path"
