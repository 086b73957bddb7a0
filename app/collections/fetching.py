"""Brings web pages into collections from a serving process: a few at a time, however long servers take.

Of the people who have asked, the one for whom the fewest pages are being fetched has the next turn. What waits here is
lost with the process. What was fetched is a document with a job, like any other.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class _Wanted:
    collection: str
    url: str
    allowance: Allowance | None

    @property
    def person(self) -> str:
        return "" if self.allowance is None else self.allowance.user


class Fetching:
    """Safe to use from several threads. What was fetched is forgotten; what failed stays until taken away."""

    def __init__(self, catalog: Catalog, library: Library, *, read_url: ReadUrl) -> None:
        self._catalog = catalog
        self._library = library
        self._read_url = read_url
        self._pool = ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="fetch")
        self._lock = threading.Lock()
        self._is_closed = False
        self._waiting: dict[str, deque[_Wanted]] = {}  # by person
        self._under_way: Counter[str] = Counter()  # by person
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
                wanted_by = _Wanted(name, url, allowance)
                self._waiting.setdefault(wanted_by.person, deque()).append(wanted_by)
        self._begin()

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
        with self._lock:
            self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _require_failed(self, collection: str, url: str) -> None:
        fetch = next((each for each in self.fetches(collection) if each.url == url), None)
        if fetch is None or fetch.state is not FetchState.FAILED:
            raise NotFoundError("This address is not among those that failed. Load the page again.")

    def _begin(self) -> None:
        """As many as may be fetched at a time."""
        while (begun := self._begin_one()) is not None:
            wanted, fetch = begun
            fetch.add_done_callback(partial(self._note_end, wanted))  # which may be called at once, and takes the lock

    def _begin_one(self) -> tuple[_Wanted, Future[None]] | None:
        with self._lock:
            if self._is_closed or not self._waiting or self._under_way.total() >= _AT_A_TIME:
                return None
            person = min(self._waiting, key=lambda each: self._under_way[each])
            wanted = self._waiting[person].popleft()
            if not self._waiting[person]:
                del self._waiting[person]
            self._under_way[person] += 1
            self._fetches[wanted.collection][wanted.url] = Fetch(wanted.url, FetchState.FETCHING)
            return wanted, self._pool.submit(self._fetch, wanted)

    def _fetch(self, wanted: _Wanted) -> None:
        source = replace(self._read_url(wanted.url), allowance=wanted.allowance)
        self._library.add_document(wanted.collection, source)

    def _note_end(self, wanted: _Wanted, future: Future[None]) -> None:
        with self._lock:
            self._under_way[wanted.person] -= 1
        if not future.cancelled():
            self._note_outcome(wanted.collection, wanted.url, future.exception())
        self._begin()

    def _note_outcome(self, collection: str, url: str, error: BaseException | None) -> None:
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
