"""Fetches web pages into collections in threads of the serving process, a few at a time.

The next page is one of the user with the fewest pages being fetched. The queue is in memory and lost with the process.
A fetched page is a document with an ingestion job like any other.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from app.documents.library import Library
from app.errors import GircseError, InputError, NotFoundError, UnknownCollectionError
from app.ports.catalog import Catalog
from app.types.documents import Source, require_short_uri, require_text
from app.types.quotas import Allowance
from app.types.upkeep import MAX_URLS, Fetch, FetchState
from app.types.web_addresses import web_address

log = logging.getLogger(__name__)

ReadUrl = Callable[[str], Source]  # raises DocumentError

_AT_A_TIME = 4


@dataclass(frozen=True, slots=True)
class _Place:
    """A collection. One that is created later under the same name is another one."""

    collection: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class _Wanted:
    place: _Place
    url: str
    allowance: Allowance | None

    @property
    def collection(self) -> str:
        return self.place.collection

    @property
    def user(self) -> str:
        return "" if self.allowance is None else self.allowance.user


@dataclass(frozen=True, slots=True)
class _Listed:
    fetch: Fetch
    user: str


class BackgroundFetching:
    """The queue of pages to fetch. Thread-safe. Fetched pages leave it; failed ones stay until `forget` or `retry`, or
    until their collection is found to be deleted.

    `allowance_of` returns the present quota of a user in a collection. It raises ForbiddenError if the user may no
    longer add documents there: a page may wait for hours.
    """

    def __init__(
        self,
        catalog: Catalog,
        library: Library,
        *,
        read_url: ReadUrl,
        allowance_of: Callable[[str, str], Allowance | None] | None = None,
    ) -> None:
        self._allowance_of = allowance_of
        self._catalog = catalog
        self._library = library
        self._read_url = read_url
        self._pool = ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="fetch")
        self._lock = threading.Lock()
        self._is_closed = False
        self._waiting: dict[str, deque[_Wanted]] = {}  # by user
        self._running: Counter[str] = Counter()  # by user
        self._fetches: dict[_Place, dict[str, _Listed]] = {}  # by collection and URL, in order of `add`

    def add(self, collection: str, urls: Sequence[str], *, allowance: Allowance | None = None) -> None:
        """Queue the pages. If one URL is invalid, or too many of this user wait or failed in the collection, raises
        InputError and queues none.
        """
        place = self._place(collection)
        wanted = list(dict.fromkeys(url.strip() for url in urls))
        for url in wanted:
            _check_url(url)
        self._forget_deleted()
        with self._lock:
            fetches = self._fetches.setdefault(place, {})
            new = [url for url in wanted if url not in fetches or fetches[url].fetch.state is FetchState.FAILED]
            user = "" if allowance is None else allowance.user
            own = {url for url, listed in fetches.items() if listed.user == user}
            if len(own | set(new)) > MAX_URLS:
                raise InputError(
                    f"At most {MAX_URLS} URLs can wait at a time: {len(own)} are waiting, and {len(new)} more are "
                    "too many. `gircse ingest --urls FILE` takes any number."
                )
            for url in new:
                page = _Wanted(place, url, allowance)
                self._note(page, FetchState.WAITING)
                self._waiting.setdefault(page.user, deque()).append(page)
        self._begin()

    def fetches(self, collection: str) -> list[Fetch]:
        try:
            place = self._place(collection)
        except UnknownCollectionError:
            return []
        with self._lock:
            return [listed.fetch for listed in self._fetches.get(place, {}).values()]

    def retry(self, collection: str, url: str, *, allowance: Allowance | None = None) -> None:
        """Queue a failed page again. Raises NotFoundError if the page has not failed."""
        self._require_failed(collection, url)
        self.add(collection, [url], allowance=allowance)

    def forget(self, collection: str, url: str) -> None:
        """Remove a failed page from the list. Raises NotFoundError if the page has not failed."""
        self._require_failed(collection, url)
        place = self._place(collection)
        with self._lock:
            self._fetches.get(place, {}).pop(url, None)

    def close(self) -> None:
        """Drop waiting pages. Fetches that are running finish in the background."""
        with self._lock:
            self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _place(self, collection: str) -> _Place:
        """Raises UnknownCollectionError."""
        return _Place(collection, self._catalog.created_at(collection))

    def _require_same(self, place: _Place) -> None:
        """Raises UnknownCollectionError if the collection was deleted, even if one of its name was created since."""
        if self._place(place.collection) != place:
            raise UnknownCollectionError(place.collection, [])

    def _forget_deleted(self) -> None:
        """Failed pages of deleted collections would else stay in memory."""
        with self._lock:
            ended = [
                place
                for place, fetches in self._fetches.items()
                if all(each.fetch.state is FetchState.FAILED for each in fetches.values())
            ]
        for place in ended:
            try:
                self._require_same(place)
            except UnknownCollectionError:
                with self._lock:
                    self._fetches.pop(place, None)

    def _require_failed(self, collection: str, url: str) -> None:
        fetch = next((each for each in self.fetches(collection) if each.url == url), None)
        if fetch is None or fetch.state is not FetchState.FAILED:
            raise NotFoundError("This URL has not failed. Reload the page.")

    def _begin(self) -> None:
        """Start fetches until `_AT_A_TIME` are running or none waits."""
        while (begun := self._begin_one()) is not None:
            wanted, fetch = begun
            fetch.add_done_callback(partial(self._note_end, wanted))  # may run at once and takes the lock

    def _begin_one(self) -> tuple[_Wanted, Future[None]] | None:
        with self._lock:
            if self._is_closed or not self._waiting or self._running.total() >= _AT_A_TIME:
                return None
            user = min(self._waiting, key=lambda name: self._running[name])
            wanted = self._waiting[user].popleft()
            if not self._waiting[user]:
                del self._waiting[user]
            self._running[user] += 1
            self._note(wanted, FetchState.FETCHING)
            return wanted, self._pool.submit(self._fetch, wanted)

    def _fetch(self, wanted: _Wanted) -> None:
        self._require_same(wanted.place)
        self._present_allowance(wanted)
        source = self._read_url(wanted.url)
        self._require_same(wanted.place)
        self._library.add_document(wanted.collection, replace(source, allowance=self._present_allowance(wanted)))

    def _present_allowance(self, wanted: _Wanted) -> Allowance | None:
        if wanted.allowance is None or self._allowance_of is None:
            return wanted.allowance
        return self._allowance_of(wanted.user, wanted.collection)

    def _note_end(self, wanted: _Wanted, future: Future[None]) -> None:
        with self._lock:
            self._running[wanted.user] -= 1
        if not future.cancelled():
            self._note_outcome(wanted, future.exception())
        self._begin()

    def _note(self, wanted: _Wanted, state: FetchState, reason: str | None = None) -> None:
        self._fetches[wanted.place][wanted.url] = _Listed(Fetch(wanted.url, state, reason), wanted.user)

    def _note_outcome(self, wanted: _Wanted, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, GircseError):
            log.error("Fetching %r failed", wanted.url, exc_info=error)
        with self._lock:
            if error is None or isinstance(error, UnknownCollectionError):
                self._fetches[wanted.place].pop(wanted.url, None)
            else:
                reason = "Internal error; see the server's log."
                if isinstance(error, GircseError):
                    reason = error.lasting_text
                self._note(wanted, FetchState.FAILED, reason)


def _check_url(url: str) -> None:
    if web_address(url) is None:
        raise InputError(f"{url[:80]!r} is not a URL of a web page. Write it as https://host/path.")
    require_short_uri(require_text(url, name="address"))
