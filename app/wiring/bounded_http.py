"""httpx clients that limit the size and total time of a response.

httpx's own timeouts apply to single reads, and it does not limit the size of decompressed responses.
"""

from __future__ import annotations

import math
import time
from typing import Any

import httpx

_MAX_BYTES = 128_000_000  # the tokenizer of a large model has 40 MB


class _Body:
    """Collects a response's body. Raises httpx.TransportError beyond `max_bytes` or the request's read timeout."""

    def __init__(self, request: httpx.Request, max_bytes: int) -> None:
        seconds = request.extensions.get("timeout", {}).get("read")
        self._until = time.monotonic() + (math.inf if seconds is None else seconds)
        self._request = request
        self._max_bytes = max_bytes
        self._body = bytearray()

    def add(self, part: bytes) -> None:
        self._body += part
        if len(self._body) > self._max_bytes:
            raise httpx.RemoteProtocolError(f"its response exceeds {self._max_bytes:,} bytes", request=self._request)
        if time.monotonic() > self._until:
            raise httpx.ReadTimeout("its response takes too long", request=self._request)

    def whole(self, answer: httpx.Response) -> httpx.Response:
        packed = answer.headers.get("content-encoding", "identity")
        if packed != "identity":
            reason = f"its response is compressed as {packed[:40]!r}, which was not requested"
            raise httpx.RemoteProtocolError(reason, request=self._request)
        return httpx.Response(
            answer.status_code,
            headers=answer.headers,
            stream=httpx.ByteStream(bytes(self._body)),
            extensions=answer.extensions,
            request=self._request,
        )


class BoundedClient(httpx.Client):
    def __init__(self, *, max_bytes: int = _MAX_BYTES, **options: Any) -> None:
        super().__init__(**_unpacked(options))
        self._max_bytes = max_bytes

    def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        if stream:
            return super().send(request, stream=True, **options)
        body = _Body(request, self._max_bytes)
        answer = super().send(request, stream=True, **options)
        try:
            for part in answer.iter_raw():
                body.add(part)
        finally:
            answer.close()
        whole = body.whole(answer)
        whole.read()
        return whole


class BoundedAsyncClient(httpx.AsyncClient):
    def __init__(self, *, max_bytes: int = _MAX_BYTES, **options: Any) -> None:
        super().__init__(**_unpacked(options))
        self._max_bytes = max_bytes

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        if stream:
            return await super().send(request, stream=True, **options)
        body = _Body(request, self._max_bytes)
        answer = await super().send(request, stream=True, **options)
        try:
            async for part in answer.aiter_raw():
                body.add(part)
        finally:
            await answer.aclose()
        whole = body.whole(answer)
        await whole.aread()
        return whole


def _unpacked(options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "headers": {**(options.get("headers") or {}), "accept-encoding": "identity"}}
