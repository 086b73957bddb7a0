"""Connections of urllib3 to checked addresses only. TLS and the Host header keep the original host name.

Responses that are read whole have a size limit, counted after decompression."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import NewConnectionError

from app.errors import DocumentError
from ingest.readers.limits import MEGABYTE
from ingest.recurring.hosts import SourceHostGuard

_TIMEOUT = urllib3.Timeout(connect=20, read=60)
MAX_ANSWER_BYTES = 16 * MEGABYTE  # an S3 page lists 1,000 keys of up to 1 kB, which escaping can triple
_PART_BYTES = 1 << 16
_FIRST_ERROR = 300
_ENCODINGS = ("", "identity", "gzip", "deflate")
_OF_THE_TRANSFER = ("content-encoding", "content-length", "transfer-encoding")
_RETRIES = urllib3.Retry(total=2, redirect=3, backoff_factor=0.2, status_forcelist=(500, 502, 503, 504))


@contextmanager
def pinned_pool(guard: SourceHostGuard) -> Iterator[urllib3.PoolManager]:
    """A pool whose connections use `guard`. It is closed after the block."""

    class Plain(_Pinned, HTTPConnection):
        _guard = guard

    class Secure(_Pinned, HTTPSConnection):
        _guard = guard

    class PlainPool(_Bounded, urllib3.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(_Bounded, urllib3.HTTPSConnectionPool):
        ConnectionCls = Secure

    with urllib3.PoolManager(timeout=_TIMEOUT, retries=_RETRIES) as pool:
        pool.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
        yield pool


class _Bounded:
    """Reads the bodies that urllib3 would read whole, including those of error responses, and enforces the limit."""

    def urlopen(self: Any, method: str, url: str, *arguments: Any, **options: Any) -> urllib3.BaseHTTPResponse:
        is_whole = options.pop("preload_content", True)
        answer = super().urlopen(method, url, *arguments, preload_content=False, **options)  # type: ignore[misc]
        if isinstance(answer, _Whole) or not (is_whole or answer.status >= _FIRST_ERROR):
            return answer
        return _read_whole(answer)


class _Whole(urllib3.HTTPResponse):
    """A response already read, perhaps by a retry within the same call."""


def _read_whole(answer: urllib3.BaseHTTPResponse) -> _Whole:
    packed = answer.headers.get("content-encoding", "identity").lower()
    if packed not in _ENCODINGS:  # other encodings can expand a kilobyte to gigabytes in one step
        raise DocumentError(f"The server sent its response with the encoding {packed[:40]!r}, which was not requested.")
    body = bytearray()
    for part in answer.stream(_PART_BYTES, decode_content=True):
        body += part
        if len(body) > MAX_ANSWER_BYTES:
            answer.close()
            most = MAX_ANSWER_BYTES / MEGABYTE
            raise DocumentError(
                f"The server's response is larger than {most:,.0f} MB, too large for a page of a listing."
            )
    answer.release_conn()
    headers = {name: value for name, value in answer.headers.items() if name.lower() not in _OF_THE_TRANSFER}
    return _Whole(body=bytes(body), headers=headers, status=answer.status, reason=answer.reason, retries=answer.retries)


class _Pinned:
    _guard: SourceHostGuard

    def _new_conn(self: Any) -> socket.socket:
        failure: OSError | None = None
        for address in self._guard.addresses(self._dns_host, self.port):  # raises DocumentError, which is not retried
            try:
                return socket.create_connection((address, self.port), self.timeout)
            except OSError as error:
                failure = error
        raise NewConnectionError(self, f"it does not answer ({type(failure).__name__})")
