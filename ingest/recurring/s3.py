"""Objects of a bucket on any S3-compatible server as a source: `https://host/bucket/prefix`. Extra `[sources]`.

The listing shows by ETag which objects changed; only these are fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from xml.etree.ElementTree import ParseError

import minio
import urllib3

from app.errors import DocumentError, InputError, VanishedError
from app.ports.sources import OpenedSource, SourceCredentials
from app.types.credentials import Credentials
from app.types.documents import Source
from app.types.sources import MAX_LISTED_ITEMS, Fetched, ItemMark, Listing, RecurringSource
from ingest.readers.limits import DEFAULT_LIMITS, MEGABYTE
from ingest.recurring.hosts import SourceHostGuard
from ingest.recurring.pinned_pool import pinned_pool
from ingest.recurring.selection import PathSelection

_PAGE = 1_000  # objects per page of a listing; the lease is renewed after each
_GONE = ("NoSuchKey", "NoSuchVersion")
_HINTS = {
    "NoSuchBucket": "There is no such bucket.",
    "AccessDenied": "The server denies access: check what the credentials may list and read.",
    "InvalidAccessKeyId": "The server does not know this `user`: check the credentials.",
    "SignatureDoesNotMatch": "The server does not accept the `password`: check the credentials.",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """The parts of an address. `endpoint` is host and port without a scheme, as minio takes it."""

    endpoint: str
    is_secure: bool
    bucket: str
    prefix: str


class S3SourceReader:
    def __init__(self, *, guard: SourceHostGuard, credentials: SourceCredentials) -> None:
        self._guard = guard
        self._credentials = credentials

    @contextmanager
    def open(
        self, source: RecurringSource, marks: Mapping[str, ItemMark], *, beat: Callable[[], None]
    ) -> Iterator[OpenedSource]:
        name = source.options.credentials
        own = self._credentials.find(name, user=source.owner, address=source.address) if name else Credentials("")
        place = place_of(source.address)
        with pinned_pool(self._guard) as pool:
            client = minio.Minio(
                place.endpoint,
                access_key=own.user or None,
                secret_key=own.password or None,
                secure=place.is_secure,
                region=own.region or None,
                http_client=pool,
            )
            yield _Bucket(client, source, place, beat)


class _Bucket:
    def __init__(self, client: Any, source: RecurringSource, place: _Place, beat: Callable[[], None]) -> None:
        self._client = client
        self._source = source
        self._place = place
        self._beat = beat
        self._keys: dict[str, str] = {}

    def items(self) -> Listing:
        selection = PathSelection(self._source.options.patterns)
        items: dict[str, ItemMark | None] = {}
        is_whole = True
        with _mapped_errors():
            objects = self._client.list_objects(self._place.bucket, prefix=self._place.prefix or None, recursive=True)
            for number, entry in enumerate(objects, start=1):
                if number % _PAGE == 0:
                    self._beat()
                if entry.is_dir or not selection.takes(entry.object_name):
                    continue
                if len(items) == MAX_LISTED_ITEMS:
                    is_whole = False
                    break
                address = item_address(self._source.address, self._place, entry.object_name)
                self._keys[address] = entry.object_name
                modified = entry.last_modified.isoformat() if not entry.etag else ""
                items[address] = ItemMark(str(entry.etag or ""), modified)
        note = None if is_whole else f"It has more than {MAX_LISTED_ITEMS:,} objects; only the first ones are synced."
        return Listing(items, is_whole=is_whole, note=note)

    def fetch(self, address: str, mark: ItemMark) -> Fetched | None:
        key = self._keys.get(address)
        if key is None:
            raise VanishedError("The bucket no longer has this object.")
        with _mapped_errors():
            answer = self._client.get_object(self._place.bucket, key)
            try:
                data = _body(answer)
            finally:
                answer.close()
                answer.release_conn()
        # The ETag of the fetched object, which may be newer than the listing.
        current = ItemMark(answer.headers.get("etag", "").strip('"'))
        if mark == current and current.etag:
            return None
        source = Source(name=key, uri=address, media_type="", data=data)
        return Fetched(source, current)


def place_of(address: str) -> _Place:
    """Splits an address into its parts. Raises InputError without a bucket."""
    parts = urlsplit(address)
    bucket, _, prefix = unquote(parts.path).lstrip("/").partition("/")
    if not bucket or not parts.hostname:
        raise InputError(f"{address[:80]!r} names no bucket; use https://host/bucket or https://host/bucket/prefix/.")
    return _Place(parts.netloc, parts.scheme == "https", bucket, prefix)


def item_address(address: str, place: _Place, key: str) -> str:
    return f"s3+{urlsplit(address).scheme}://{place.endpoint}/{place.bucket}/{quote(key)}"


def _body(answer: Any) -> bytes:
    body = bytearray()
    for part in answer.stream(1 << 16):
        body += part
        if len(body) > DEFAULT_LIMITS.max_bytes:
            raise DocumentError(f"The object is larger than {DEFAULT_LIMITS.max_bytes / MEGABYTE:,.0f} MB. Split it.")
    return bytes(body)


@contextmanager
def _mapped_errors() -> Iterator[None]:
    try:
        yield
    except minio.S3Error as error:
        if error.code in _GONE:
            raise VanishedError("The object no longer exists.") from None
        raise DocumentError(_HINTS.get(error.code or "", f"The server answers {error.code}: {error.message}")) from None
    except (minio.error.MinioException, ValueError, ParseError) as error:
        raise DocumentError(f"The server does not respond like S3 ({type(error).__name__}: {error!s:.200}).") from None
    except urllib3.exceptions.HTTPError as error:
        reason = getattr(error, "reason", None) or error
        raise DocumentError(f"The server cannot be reached ({type(reason).__name__}). Try again later.") from None
