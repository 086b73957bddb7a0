"""Brings web pages into collections from a serving process: a few at a time, however long servers take.

What waits here is lost with the process. What was fetched is a document with a job, like any other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from app.collections.library import Library
from app.errors import GircseError, InputError, NotFoundError
from app.ports.catalog import Catalog
from app.types.documents import Source, require_short_uri, require_text
from app.types.quotas import Allowance
from app.types.upkeep import MAX_URLS, Fetch, FetchState

log = logging.getLogger(__name__)

ReadUrl = Callable[[str], Source]  # raises DocumentError

_AT_A_TIME = 4


class Fetching:
    """Safe to use from several threads. What was fetched is forgotten; what failed stays until taken away."""

    def __init__(self, catalog: Catalog, library: Library, *, read_url: ReadUrl) -> None:
        self._catalog = catalog
        self._library = library
        self._read_url = read_url
        self._pool = ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="fetch")
        self._lock = threading.Lock()
        self._fetches: dict[str, dict[str, Fetch]] = {}  # by collection and url, in the order of asking

    def add(self, collection: str, urls: Sequence[str], *, allowance: Allowance | None = None) -> None:
        """Has them fetched. Raises InputError, and fetches none, when one of them can be no document's address."""
        name = self._catalog.collection(collection).name
        wanted = list(dict.fromkeys(url.strip() for url in urls))
        for url in wanted:
            _check_url(url)
        with self._lock:
            fetches = self._fetches.setdefault(name, {})
            new = [url for url in wanted if url not in fetches or fetches[url].state is FetchState.FAILED]
            if len(fetches.keys() | set(new)) > MAX_URLS:
                raise InputError(
                    f"At most {MAX_URLS} addresses wait at a time; {len(fetches)} do, and {len(new)} are too many. "
                    "`gircse ingest --urls FILE` takes any number."
                )
            for url in new:
                fetches[url] = Fetch(url, FetchState.WAITING)
        for url in new:
            fetch = self._pool.submit(self._fetch, name, url, allowance)
            fetch.add_done_callback(partial(self._note_end, name, url))

    def fetches(self, collection: str) -> list[Fetch]:
        with self._lock:
            return list(self._fetches.get(collection, {}).values())

    def retry(self, collection: str, url: str, *, allowance: Allowance | None = None) -> None:
        """Raises NotFoundError for what did not fail here."""
        self._require_failed(collection, url)
        self.add(collection, [url], allowance=allowance)

    def forget(self, collection: str, url: str) -> None:
        """Takes what failed from the list. Raises NotFoundError."""
        self._require_failed(collection, url)
        with self._lock:
            self._fetches.get(collection, {}).pop(url, None)

    def close(self) -> None:
        """What waits is dropped; what is being fetched ends."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _require_failed(self, collection: str, url: str) -> None:
        fetch = next((each for each in self.fetches(collection) if each.url == url), None)
        if fetch is None or fetch.state is not FetchState.FAILED:
            raise NotFoundError("This address is not among those that failed. Load the page again.")

    def _fetch(self, collection: str, url: str, allowance: Allowance | None) -> None:
        with self._lock:
            self._fetches[collection][url] = Fetch(url, FetchState.FETCHING)
        self._library.add_document(collection, replace(self._read_url(url), allowance=allowance))

    def _note_end(self, collection: str, url: str, future: Future[None]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is not None and not isinstance(error, GircseError):
            log.error("Fetching %r failed", url, exc_info=error)
        with self._lock:
            if error is None:
                self._fetches[collection].pop(url, None)
            else:
                reason = str(error) if isinstance(error, GircseError) else "It went wrong here; the log says more."
                self._fetches[collection][url] = Fetch(url, FetchState.FAILED, reason)


def _check_url(url: str) -> None:
    if not url.lower().startswith(("http://", "https://")):
        raise InputError(f"{url[:80]!r} is no address of a web page; write it as https://host/path.")
    require_short_uri(require_text(url, name="address"))
