"""Fetches documents from untrusted URLs: only from the public internet, unless allowed.

Against DNS rebinding, each request resolves its host name once and connects to the address that it has checked; so
does each redirect.
"""

from __future__ import annotations

import asyncio
import io
import logging
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import anyio.to_thread
import httpx

from app.errors import DocumentError, VanishedError
from app.types.documents import Source, SourceFailure
from app.types.sources import Fetched, ItemMark
from ingest.addresses import is_public
from ingest.readers.content_types import detect
from ingest.readers.limits import DEFAULT_LIMITS, MEGABYTE
from ingest.readers.media_types import known_type, type_of_suffix, with_charset
from ingest.recurring.hosts import require_allowed

log = logging.getLogger(__name__)

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]  # addresses of a host name

MAX_REDIRECTS = 5
_LONGEST_MARK = 500
_STEP_TIMEOUT_S = 20  # for the connection and for every single read
_HEADERS = {"User-Agent": "gircse-search", "Accept": "*/*", "Accept-Encoding": "identity"}
_SAYING_NOTHING = ("", "text/plain")  # defaults of servers, which say nothing about the content


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits for one document. `total_s` runs from name resolution to the last byte, over all redirects."""

    max_bytes: int = DEFAULT_LIMITS.max_bytes
    total_s: float = 120


@dataclass(frozen=True, slots=True)
class _Answer:
    data: bytes
    content_type: str
    requested: httpx.URL
    final: httpx.URL
    mark: ItemMark


async def resolve_name(host: str, port: int) -> list[str]:
    infos = await anyio.to_thread.run_sync(
        lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), abandon_on_cancel=True
    )
    return list(dict.fromkeys(str(address[0]) for *_, address in infos))


class UrlReader:
    def __init__(
        self,
        *,
        is_allowed: Callable[[str], bool] = is_public,  # called with every address before the connection
        limits: FetchLimits | None = None,
        resolve: Resolver = resolve_name,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._is_allowed = is_allowed
        self._limits = limits or FetchLimits()
        self._resolve = resolve
        self._given_tls = tls

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or httpx.create_ssl_context(trust_env=False)  # reads hundreds of certificates

    def read_all(self, urls: Iterable[str]) -> Iterator[Source | SourceFailure]:
        """Fetches the URLs in order. A URL that fails yields a SourceFailure and does not stop the others."""
        for url in urls:
            try:
                yield self.read(url)
            except DocumentError as error:
                yield SourceFailure(url, str(error))

    def read(self, url: str) -> Source:
        """Fetches the document at `url`. Its URI is `url` without the fragment, even after redirects. Raises
        DocumentError."""
        fetched = self.read_if_changed(url, ItemMark())
        assert fetched is not None  # without a mark nothing is unchanged
        return fetched.source

    def read_if_changed(self, url: str, mark: ItemMark) -> Fetched | None:
        """Fetches the document; None where the server answers 304 for `mark`. Raises VanishedError (404, 410),
        DocumentError."""
        answer = self._answer(url, mark)
        if answer is None:
            return None
        media_type = _media_type(answer.content_type, answer.data, str(answer.final), str(answer.requested))
        return Fetched(
            Source(name=url, uri=str(answer.requested), media_type=media_type, data=answer.data), answer.mark
        )

    def read_bytes(self, url: str, *, most: int | None = None) -> bytes:
        """Fetches the body unparsed, at most `most` bytes. Raises DocumentError, also when it is larger."""
        answer = self._answer(url, ItemMark(), most)
        assert answer is not None  # without a mark nothing is unchanged
        return answer.data

    def _answer(self, url: str, mark: ItemMark, most: int | None = None) -> _Answer | None:
        conditions = {"If-None-Match": mark.etag, "If-Modified-Since": mark.modified}
        try:
            requested = httpx.URL(url.strip()).copy_with(fragment=None)
            headers = {name: value for name, value in conditions.items() if value}
            return asyncio.run(
                self._fetch_in_time(requested, headers, min(most or sys.maxsize, self._limits.max_bytes))
            )
        except httpx.InvalidURL as error:
            raise DocumentError(f"This is not a URL: {error}. Write it as https://host/path.") from None

    async def _fetch_in_time(self, url: httpx.URL, headers: Mapping[str, str], most: int) -> _Answer | None:
        transport = PinnedTransport(resolve=self._resolve, is_allowed=self._is_allowed, tls=self._tls)
        try:
            async with asyncio.timeout(self._limits.total_s):
                # Proxies from the environment would bypass the address check.
                async with httpx.AsyncClient(
                    transport=transport, trust_env=False, headers=_HEADERS, timeout=_STEP_TIMEOUT_S
                ) as client:
                    return await self._follow(client, url, headers, most)
        except TimeoutError:
            raise DocumentError(f"It did not arrive within {self._limits.total_s:g} s. Try again later.") from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            reason = str(error) or type(error).__name__
            raise DocumentError(f"It could not be fetched ({reason}). Try again later.") from error

    async def _follow(
        self, client: httpx.AsyncClient, url: httpx.URL, headers: Mapping[str, str], most: int
    ) -> _Answer | None:
        requested = url
        for _ in range(MAX_REDIRECTS + 1):
            # httpx would read whole bodies of redirects, so redirects are followed here.
            async with client.stream("GET", url, headers=headers) as response:
                if response.status_code == httpx.codes.NOT_MODIFIED and headers:
                    return None
                if response.next_request is None:
                    response_headers = response.headers
                    mark = ItemMark(
                        response_headers.get("etag", "")[:_LONGEST_MARK],
                        response_headers.get("last-modified", "")[:_LONGEST_MARK],
                    )
                    return _Answer(
                        await _body(response, most), response_headers.get("content-type", ""), requested, url, mark
                    )
                url = response.next_request.url
                log.debug("%s redirects to %s", requested, url)
        raise DocumentError(f"It redirects more than {MAX_REDIRECTS} times. Use the final address.")


class PinnedTransport(httpx.AsyncBaseTransport):
    """Connects only to addresses that it has resolved and checked; the Host header and the TLS name stay the
    original."""

    def __init__(self, *, resolve: Resolver, is_allowed: Callable[[str], bool], tls: ssl.SSLContext) -> None:
        self._resolve = resolve
        self._is_allowed = is_allowed
        # The pool would reuse a connection by its address, even for another host name.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._inner = httpx.AsyncHTTPTransport(verify=tls, trust_env=False, limits=limits)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.raw_host.decode("ascii")
        failure: httpx.TransportError | None = None
        for address in await self._addresses(request.url, host):
            pinned = httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,  # Host among them
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
        raise failure or httpx.ConnectError("the host name has no address")

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _addresses(self, url: httpx.URL, host: str) -> Sequence[str]:
        if url.scheme not in ("http", "https") or not host:
            raise DocumentError(f"Only http:// and https:// are fetched, not {str(url)[:200]!r}.")
        if url.userinfo:
            raise DocumentError("The URL contains a user name or password. Remove the part before the @.")
        try:
            addresses = await self._resolve(host, url.port or {"http": 80, "https": 443}[url.scheme])
        except (OSError, UnicodeError) as error:
            raise DocumentError(f"The host name {host!r} cannot be resolved ({error}). Check the address.") from error
        require_allowed(host, addresses, self._is_allowed)
        return addresses


async def _body(response: httpx.Response, most: int) -> bytes:
    """The decoded body. Raises DocumentError for an error status, an unexpected encoding, or more than `most` decoded
    bytes.

    VanishedError for 404 and 410.
    """
    if not response.is_success:
        reason = f"{response.status_code} {response.reason_phrase}".strip()
        is_gone = response.status_code in (httpx.codes.NOT_FOUND, httpx.codes.GONE)
        error = VanishedError if is_gone else DocumentError
        raise error(f"The server answers {reason}. Check the address in a browser.")
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip", "deflate"):  # others unpack a kilobyte to gigabytes in one step
        raise DocumentError(f"It was sent with the encoding {encoding!r}, which was not requested.")
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > most:
            raise DocumentError(f"It is larger than {most / MEGABYTE:,.1f} MB. Download it and split it into parts.")
    return bytes(body)


def _media_type(content_type: str, data: bytes, *urls: str) -> str:
    """Detects the media type from content, Content-Type and the suffixes of `urls`; keeps the charset of the server."""
    known = known_type(content_type)
    if known in _SAYING_NOTHING:
        content_type = with_charset(next(filter(None, map(type_of_suffix, urls)), known), content_type)
    return detect(io.BytesIO(data), uri=urls[0], declared=content_type)
