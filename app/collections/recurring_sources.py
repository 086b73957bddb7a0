"""Syncs sources on their schedule: fetches changed items and, if wanted, removes documents of vanished ones.

Syncs are leased like jobs: the next worker takes over one that was killed, and unchanged items cost nothing. Several
run at once, at most half of them for one owner, so that no slow server and no user blocks the others.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from app.documents.library import Library
from app.errors import GircseError, LeaseLostError, SyncEndedError, UnavailableError, VanishedError
from app.ports.sources import OpenedSource, SourceReader
from app.types.quotas import Allowance
from app.types.sources import ItemMark, Listing, RecurringSource, Round, SourceKind
from app.types.uris import canonical_uri

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

log = logging.getLogger(__name__)

AllowanceOf = Callable[
    [RecurringSource], Allowance | None
]  # raises ForbiddenError if the owner may no longer add documents

PLACES = 4  # concurrent syncs in one process, each with its own child process
_MOST_OF_OWNER = PLACES // 2  # over all processes
_SHOWN = 300
_PROLONG_EVERY_S = 2.0  # also the time in which a sync notices that its source was deleted or changed


@dataclass
class _Counts:
    changed: int = 0
    removed: int = 0
    failed: int = 0
    error: str | None = None

    def note(self, what: str) -> None:
        self.error = self.error or what

    def fail(self, address: str, error: GircseError) -> None:
        self.failed += 1
        self.error = self.error or f"{address[:_SHOWN]}: {error.lasting_text}"


class SourceSchedule:
    """Syncs due sources. Any number of schedules may work on one catalog."""

    def __init__(
        self,
        *,
        catalog: SqlCatalog,
        library: Library,
        readers: Mapping[SourceKind, SourceReader],
        allowance_of: AllowanceOf,
        lease: timedelta = timedelta(minutes=3),
        longest: timedelta = timedelta(hours=1),  # limit of fetching per sync; the next one continues
        poll_s: float = 1.0,  # short, because a user who adds or runs a source waits for it
    ) -> None:
        self._catalog = catalog
        self._library = library
        self._readers = readers
        self._allowance_of = allowance_of
        self._lease = lease
        self._longest_s = longest.total_seconds()
        self._poll_s = poll_s
        self._claiming = threading.Lock()

    def run(self, stop: threading.Event) -> None:
        """Sync sources one after the other until `stop` is set. Several threads may call it."""
        while not stop.is_set():
            try:
                if (source := self._next(stop)) is not None:
                    self._sync(source, stop)
            except UnavailableError as error:
                log.warning("Sources are waiting: %s", error)
                stop.wait(self._poll_s)

    def run_once(self, stop: threading.Event | None = None) -> bool:
        """Sync one due source; False if none is due. An interrupted sync is repeated when its lease expires."""
        source = self._claim()
        if source is not None:
            self._sync(source, stop or threading.Event())
        return source is not None

    def _claim(self) -> RecurringSource | None:
        return self._catalog.sources.claim(lease=self._lease, most_of_owner=_MOST_OF_OWNER)

    def _next(self, stop: threading.Event) -> RecurringSource | None:
        with self._claiming:  # only one of the idle threads polls
            if stop.is_set():
                return None
            source = self._claim()
            if source is None:
                stop.wait(self._poll_s)
            return source

    def _sync(self, source: RecurringSource, stop: threading.Event) -> None:
        try:
            found = self._round(source, stop)
        except (LeaseLostError, _StoppedError) as error:
            log.info("Sync of source %s was interrupted: %s", source.id, error)
            return
        except UnavailableError:
            raise
        except GircseError as error:
            found = Round(failed=1, error=error.lasting_text)
        except Exception:  # an error in one source must not end all of them
            log.exception("Source %s failed", source.id)
            found = Round(failed=1, error="Internal error; see the server's log.")
        self._catalog.sources.end_round(source, found)

    def _round(self, source: RecurringSource, stop: threading.Event) -> Round:
        """Run one sync. Raises LeaseLostError or _StoppedError if it must be abandoned."""
        allowance = self._allowance_of(source)
        marks = self._catalog.sources.marks(source.id)
        counts = _Counts()
        beat = _Beat(self._catalog, source, self._lease, stop)
        with self._readers[source.kind].open(source, marks, beat=beat) as opened:
            listing = opened.items()
            wanted = to_fetch(listing, marks)
            until = time.monotonic() + self._longest_s
            for number, address in enumerate(wanted):
                beat()
                if number and time.monotonic() > until:
                    counts.note(
                        f"Fetching took longer than {self._longest_s / 60:,.0f} minutes: {len(wanted) - number:,} "
                        "items wait for the next scheduled sync."
                    )
                    break
                try:
                    with self._noted(source, address, is_known=address in marks, counts=counts):
                        self._bring_in(source, opened, address, marks.get(address), allowance, counts)
                except SyncEndedError as error:
                    counts.fail(address, error)
                    break
        for address in marks if listing.is_whole else ():
            if address not in listing.items:
                self._lose(source, address, counts)
        return Round(counts.changed, counts.removed, counts.failed, counts.error or listing.note)

    @contextmanager
    def _noted(self, source: RecurringSource, address: str, *, is_known: bool, counts: _Counts) -> Iterator[None]:
        """Count an error of one item, so that the sync continues. Raises errors that concern the whole sync."""
        try:
            yield
        except (LeaseLostError, UnavailableError, SyncEndedError, _StoppedError):
            raise
        except VanishedError as error:
            if is_known:
                self._lose(source, address, counts)
            else:
                counts.fail(address, error)
        except GircseError as error:
            counts.fail(address, error)

    def _bring_in(
        self,
        source: RecurringSource,
        opened: OpenedSource,
        address: str,
        mark: ItemMark | None,
        allowance: Allowance | None,
        counts: _Counts,
    ) -> None:
        fetched = opened.fetch(address, mark or ItemMark())
        if fetched is None:
            return
        _, job = self._library.add_document(source.collection, replace(fetched.source, allowance=allowance))
        counts.changed += job is not None
        # Mark the item after adding the document: if killed in between, the next sync fetches it again, unchanged.
        self._catalog.sources.mark_item(source, address, fetched.mark)

    def _lose(self, source: RecurringSource, address: str, counts: _Counts) -> None:
        if source.removes:
            uri = canonical_uri(address)
            for key in self._catalog.document_keys(source.collection, uri_prefix=uri):
                if key.uri == uri:
                    self._library.delete_document(key.id)
                    counts.removed += 1
        self._catalog.sources.mark_item(source, address, None)


class _StoppedError(Exception):
    pass


class _Beat:
    """Heartbeat of a sync. Call it as often as you like; it prolongs the lease at most every `_PROLONG_EVERY_S`."""

    def __init__(self, catalog: SqlCatalog, source: RecurringSource, lease: timedelta, stop: threading.Event) -> None:
        self._catalog = catalog
        self._source = source
        self._lease = lease
        self._stop = stop
        self._next_at = 0.0

    def __call__(self) -> None:
        """Prolong the lease. Raises LeaseLostError if the source was deleted or changed, _StoppedError if stopping."""
        if self._stop.is_set():
            raise _StoppedError("the worker stops")
        if time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + _PROLONG_EVERY_S
            with suppress(UnavailableError):  # the lease outlasts a short outage
                self._catalog.sources.prolong(self._source, lease=self._lease)


def to_fetch(listing: Listing, marks: Mapping[str, ItemMark]) -> list[str]:
    """Addresses to fetch: first new ones, in their order, then known ones that may have changed, in random order.

    If the listing is incomplete, every known address may have changed. The random order gives each of them a turn even
    if syncs end before all are fetched.
    """
    named = [address for address, mark in listing.items.items() if mark is None or marks.get(address) != mark]
    if not listing.is_whole:
        named += [each for each in marks if each not in listing.items]
    known = [each for each in named if each in marks]
    random.shuffle(known)
    return [*(each for each in named if each not in marks), *known]
