"""Pages, feeds and sitemaps as sources. Every fetch goes through the address checks of `UrlReader`."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from urllib.parse import urlsplit
from xml.etree.ElementTree import ParseError

from app.errors import DocumentError, InputError
from app.ports.sources import OpenedSource
from app.types.documents import MAX_URI_BYTES
from app.types.sources import MAX_ITEMS, Fetched, ItemMark, Listing, RecurringSource, SourceKind
from ingest.readers.limits import MEGABYTE
from ingest.readers.xml import feed_xml
from ingest.urls import UrlReader

_MAX_SITEMAPS = 50  # per sitemap index
_MAX_SITEMAP_BYTES = 50 * MEGABYTE  # the limit of the sitemap protocol
_MAX_FEED_BYTES = 20 * MEGABYTE
_MAX_PIECES = 1_000  # pieces of text that are kept per XML element


class WebSourceReader:
    """Opens pages, feeds and sitemaps. Implements the port `SourceReader`."""

    def __init__(self, urls: UrlReader) -> None:
        self._urls = urls

    @contextmanager
    def open(
        self, source: RecurringSource, marks: Mapping[str, ItemMark], *, beat: Callable[[], None]
    ) -> Iterator[OpenedSource]:
        yield _WebPages(self._urls, source, beat)


class _WebPages:
    def __init__(self, urls: UrlReader, source: RecurringSource, beat: Callable[[], None]) -> None:
        self._urls = urls
        self._source = source
        self._beat = beat
        self._is_cut = False
        self._nested_count = 0

    def items(self) -> Listing:
        kind, address = self._source.kind, self._source.address
        if kind is SourceKind.PAGE:
            return Listing.unmarked([address], is_whole=True)
        if kind is SourceKind.FEED:
            entries = _entries(self._urls.read_bytes(address, most=_MAX_FEED_BYTES))
            return Listing.unmarked(islice(entries, MAX_ITEMS), is_whole=False)
        return self._sitemap(address)

    def fetch(self, address: str, mark: ItemMark) -> Fetched | None:
        return self._urls.read_if_changed(address, mark)

    def _sitemap(self, address: str) -> Listing:
        """Lists the pages of a sitemap or an index of sitemaps.

        If the source removes vanished documents, pages of other hosts are left out: otherwise the author of the list
        could remove documents of other sites (sitemaps.org: all addresses are on one host).
        """
        listed = list(islice(self._pages(address), MAX_ITEMS + 1))
        notes = []
        if is_cut := self._is_cut or len(listed) > MAX_ITEMS:
            notes.append(f"Only the first {MAX_ITEMS:,} pages of {_MAX_SITEMAPS} sitemaps are synced.")
        if self._nested_count:
            notes.append(f"{self._nested_count} indexes within the index are left out, so nothing was removed.")
        pages = [page for page in listed if not self._source.removes or _host_of(page) == _host_of(address)]
        if len(pages) < len(listed):
            notes.append(f"{len(listed) - len(pages):,} pages on other hosts than the sitemap's are left out.")
        return Listing(
            dict.fromkeys(pages[:MAX_ITEMS]), is_whole=not (is_cut or self._nested_count), note=" ".join(notes) or None
        )

    def _pages(self, address: str) -> Iterator[str]:
        is_index, addresses = _locations(self._urls.read_bytes(address, most=_MAX_SITEMAP_BYTES))
        if not is_index:
            yield from addresses
            return
        self._is_cut = len(addresses) > _MAX_SITEMAPS
        for sitemap in addresses[:_MAX_SITEMAPS]:
            self._beat()
            is_nested, pages = _locations(self._urls.read_bytes(sitemap, most=_MAX_SITEMAP_BYTES))
            self._nested_count += is_nested
            if not is_nested:
                yield from pages


def _host_of(address: str) -> tuple[str, str, int | None]:
    parts = urlsplit(address)
    try:
        return parts.scheme, parts.hostname or "", parts.port
    except ValueError:  # an invalid port
        return "", "", None


def _locations(data: bytes) -> tuple[bool, list[str]]:
    """Whether `data` is an index of sitemaps, and the web addresses in it, at most one more than MAX_ITEMS."""
    locations = _Locations()
    try:
        feed_xml(data, locations)
    except ParseError as error:
        raise DocumentError(f"This is not a sitemap: it is not XML ({error}).") from None
    return locations.is_index, locations.addresses


class _Locations:
    """Collects addresses as a target of the XML parser. Keeps no tree in memory."""

    def __init__(self) -> None:
        self.is_index = False
        self.addresses: list[str] = []
        self._is_begun = False
        self._text: list[str] | None = None  # pieces of the current <loc>

    def start(self, tag: str, attributes: object) -> None:
        name = tag.rpartition("}")[2]
        if not self._is_begun:
            self._begin(name)
        self._text = [] if name == "loc" else None

    def data(self, text: str) -> None:
        if self._text is not None and len(self._text) < _MAX_PIECES:
            self._text.append(text[:MAX_URI_BYTES])

    def end(self, tag: str) -> None:
        address = "".join(self._text or ()).strip()
        self._text = None
        if _is_web(address) and len(self.addresses) <= MAX_ITEMS:  # one more shows that there are more
            self.addresses.append(address)

    def close(self) -> None:
        pass

    def _begin(self, name: str) -> None:
        if name not in ("urlset", "sitemapindex"):
            raise DocumentError(f"This is not a sitemap: its first element is <{name[:40]}>.")
        self._is_begun, self.is_index = True, name == "sitemapindex"


def _entries(data: bytes) -> Iterator[str]:
    try:
        import feedparser
    except ModuleNotFoundError:
        raise InputError("Feeds need the package feedparser: pip install 'gircse-search[sources]'") from None
    feed = feedparser.parse(io.BytesIO(data))  # it would first try plain bytes as a path or URL
    if not feed.version:
        raise DocumentError("This is not an RSS or Atom feed.")
    for entry in feed.entries:
        link = str(entry.get("link", "")).strip()
        if _is_web(link):
            yield link.partition("#")[0]


def _is_web(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))
