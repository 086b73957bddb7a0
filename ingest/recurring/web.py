"""Reads pages, feeds and sitemaps as sources that come again; every fetch goes through the guard of `UrlReader`."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from xml.etree.ElementTree import ParseError

from app.errors import DocumentError, InputError
from app.ports.sources import OpenedSource
from app.types.sources import MAX_ITEMS, Fetched, Listing, Mark, RecurringSource, SourceKind
from ingest.readers.xml import parse_xml
from ingest.urls import UrlReader

_MAX_SITEMAPS = 50  # of an index


class WebSourceReader:
    """Of pages, feeds and sitemaps."""

    def __init__(self, urls: UrlReader) -> None:
        self._urls = urls

    @contextmanager
    def open(
        self, source: RecurringSource, marks: Mapping[str, Mark], *, beat: Callable[[], None]
    ) -> Iterator[OpenedSource]:
        yield _WebPages(self._urls, source)


class _WebPages:
    def __init__(self, urls: UrlReader, source: RecurringSource) -> None:
        self._urls = urls
        self._source = source

    def items(self) -> Listing:
        kind, address = self._source.kind, self._source.address
        if kind is SourceKind.PAGE:
            return Listing.unmarked([address], is_whole=True)
        if kind is SourceKind.FEED:
            return Listing.unmarked(list(_entries(self._urls.read_bytes(address)))[:MAX_ITEMS], is_whole=False)
        return Listing.unmarked(list(self._pages(address))[:MAX_ITEMS], is_whole=True)

    def fetch(self, address: str, mark: Mark) -> Fetched | None:
        return self._urls.read_if_changed(address, mark)

    def _pages(self, address: str) -> Iterator[str]:
        is_index, found = _locations(self._urls.read_bytes(address))
        if not is_index:
            yield from found
            return
        for each in found[:_MAX_SITEMAPS]:
            is_nested, pages = _locations(self._urls.read_bytes(each))
            if not is_nested:
                yield from pages


def _locations(data: bytes) -> tuple[bool, list[str]]:
    """Whether it is an index of sitemaps, and what it names."""
    try:
        root = parse_xml(data)
    except ParseError as error:
        raise DocumentError(f"This is no sitemap: it is no XML ({error}).") from None
    name = root.tag.rpartition("}")[2]
    if name not in ("urlset", "sitemapindex"):
        raise DocumentError(f"This is no sitemap: its first element is <{name[:40]}>.")
    locations = (each.text or "" for each in root.iter() if each.tag.rpartition("}")[2] == "loc")
    return name == "sitemapindex", [each.strip() for each in locations if _is_web(each.strip())]


def _entries(data: bytes) -> Iterator[str]:
    try:
        import feedparser
    except ModuleNotFoundError:
        raise InputError("Feeds need the package feedparser: pip install 'gircse-search[sources]'") from None
    found = feedparser.parse(io.BytesIO(data))  # bytes it would take for a path or an address first
    if not found.version:
        raise DocumentError("This is no RSS or Atom feed.")
    for entry in found.entries:
        link = str(entry.get("link", "")).strip()
        if _is_web(link):
            yield link.partition("#")[0]


def _is_web(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))
