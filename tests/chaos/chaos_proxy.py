"""Stands between the clients and Qdrant and breaks what passes: resets, delays and 5xx, by a seeded choice; or lets
nothing pass, as a network that is cut does.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import threading
from collections import Counter
from contextlib import suppress
from enum import StrEnum
from random import Random
from typing import Self

HOST = "127.0.0.1"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_ANSWER = b'{"status":{"error":"Service internal error: injected"},"result":null}'
_LONGEST_DELAY_S = 0.3
_CUT_POLL_S = 0.02


class Fault(StrEnum):
    RESET_BEFORE = "reset_before"  # the request never arrives
    RESET_AFTER = "reset_after"  # it is carried out, and its answer is lost
    CUT = "cut"  # the answer ends in the middle
    ERROR = "error"
    DELAY = "delay"


_PER_HUNDRED = {Fault.RESET_BEFORE: 2, Fault.RESET_AFTER: 2, Fault.CUT: 1, Fault.ERROR: 3, Fault.DELAY: 8}


class FailingProxy:
    """HTTP/1.1, as clients, Edge and Qdrant speak it. `port` stays; `target_port` may change, which ends connections
    to the port before at their next request. While `is_cut`, connections are taken and nothing passes in either
    direction."""

    def __init__(self, *, seed: int, target_port: int = 0, target_host: str = HOST) -> None:
        self.target_host = target_host
        self.target_port = target_port
        self.is_breaking = False
        self.is_cut = False
        self.injected: Counter[Fault] = Counter()
        self._random = Random(seed)
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, sock=self._listener), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._cancel_all)
        self._thread.join(5)
        self._listener.close()
        self._loop.close()

    def _cancel_all(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.call_later(0.05, self._loop.stop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: asyncio.StreamWriter | None = None
        port = self.target_port
        try:
            await self._whole()
            from_server, upstream = await asyncio.open_connection(self.target_host, port)
            while await self._pass_one(reader, writer, from_server, upstream, port):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            _reset(writer)
        finally:
            writer.close()
            if upstream is not None:
                upstream.close()

    async def _pass_one(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_server: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
        port: int,
    ) -> bool:
        """One request and its answer; False when the connection is at its end."""
        request = await _read_message(reader)
        if port != self.target_port:
            _reset(writer)
            return False
        fault = self._choose()
        if fault is Fault.RESET_BEFORE:
            _reset(writer)
            return False
        if fault is Fault.ERROR:
            status = self._random.choice([b"500 Internal Server Error", b"502 Bad Gateway", b"503 Service Unavailable"])
            writer.write(b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
                         % (status, len(_ANSWER), _ANSWER))  # fmt: skip
            await writer.drain()
            return True
        if fault is Fault.DELAY:
            await asyncio.sleep(self._random.uniform(0, _LONGEST_DELAY_S))
        await self._whole()
        upstream.write(request)
        answer = await _read_message(from_server)
        await self._whole()
        if fault in (Fault.RESET_AFTER, Fault.CUT):
            if fault is Fault.CUT:
                writer.write(answer[: len(answer) // 2])
                await writer.drain()
            _reset(writer)
            return False
        writer.write(answer)
        await writer.drain()
        return True

    async def _whole(self) -> None:
        while self.is_cut:
            await asyncio.sleep(_CUT_POLL_S)

    def _choose(self) -> Fault | None:
        if not self.is_breaking:
            return None
        draw = self._random.uniform(0, 100)
        for fault, share in _PER_HUNDRED.items():
            draw -= share
            if draw < 0:
                self.injected[fault] += 1
                return fault
        return None


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    if _CHUNKED.search(head):
        return head + await _read_chunks(reader)
    length = _LENGTH.search(head)
    return head + (await reader.readexactly(int(length.group(1))) if length else b"")


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while True:
        size = await reader.readuntil(b"\r\n")
        parts += [size, await reader.readexactly(int(size.split(b";")[0], 16) + 2)]
        if len(parts[-1]) == 2:  # the last chunk is empty; nobody here sends trailers
            return b"".join(parts)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Ends the connection with RST instead of FIN, as a crashed peer or a firewall does."""
    connection = writer.get_extra_info("socket")
    with suppress(OSError):  # the other side was quicker
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
