"""Brings sources in on their schedule: fetches what changed, and removes what vanished where that is wanted.

Rounds are leased like jobs: one that is killed is taken up by the next worker, and what is the same costs nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from app.collections.library import Library
from app.errors import GircseError, LeaseLostError, UnavailableError, VanishedError
from app.ports.ledger import Ledger
from app.ports.sources import OpenedSource, SourceReader
from app.types.quotas import Allowance
from app.types.sources import Listing, Mark, RecurringSource, Round, SourceKind
from app.types.uris import canonical_uri

log = logging.getLogger(__name__)

AllowanceOf = Callable[
    [RecurringSource], Allowance | None
]  # raises ForbiddenError where its owner may not add any more

_SHOWN = 300


@dataclass
class _Counts:
    changed: int = 0
    removed: int = 0
    failed: int = 0
    error: str | None = None

    def fail(self, address: str, error: GircseError) -> None:
        self.failed += 1
        self.error = self.error or f"{address[:_SHOWN]}: {error}"


class SourceSchedule:
    """Any number may work on one catalog."""

    def __init__(
        self,
        *,
        catalog: Ledger,
        library: Library,
        readers: Mapping[SourceKind, SourceReader],
        allowance_of: AllowanceOf,
        lease: timedelta = timedelta(minutes=3),  # longer than any single fetch takes
        poll_s: float = 1.0,  # who adds a source, or has one run, waits for it
    ) -> None:
        self._catalog = catalog
        self._library = library
        self._readers = readers
        self._allowance_of = allowance_of
        self._lease = lease
        self._poll_s = poll_s

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                if not self.run_once(stop):
                    stop.wait(self._poll_s)
            except UnavailableError as error:
                log.warning("Sources wait: %s", error)
                stop.wait(self._poll_s)

    def run_once(self, stop: threading.Event | None = None) -> bool:
        """One round of one source; False when none is due. A round that is left is taken up when its lease ends."""
        source = self._catalog.claim_recurring_source(lease=self._lease)
        if source is None:
            return False
        try:
            found = self._round(source, stop or threading.Event())
        except LeaseLostError as error:
            log.info("Source %s was left: %s", source.id, error)
            return True
        except UnavailableError:
            raise
        except GircseError as error:
            found = Round(failed=1, error=str(error))
        except Exception:  # an error in one source must not end all of them
            log.exception("Source %s failed", source.id)
            found = Round(failed=1, error="It went wrong here; the log says more.")
        if found is not None:
            self._catalog.end_round(source, found)
        return True

    def _round(self, source: RecurringSource, stop: threading.Event) -> Round | None:
        """None when it was left since the worker stops."""
        allowance = self._allowance_of(source)
        marks = self._catalog.source_marks(source.id)

        def beat() -> None:
            self._catalog.prolong_recurring_source(source, lease=self._lease)

        with self._readers[source.kind].open(source, marks, beat=beat) as opened:
            listing = opened.items()
            counts = _Counts()
            for address in to_fetch(listing, marks):
                if stop.is_set():
                    return None
                beat()
                try:
                    self._bring_in(source, opened, address, marks.get(address), allowance, counts)
                except (LeaseLostError, UnavailableError):
                    raise
                except VanishedError as error:
                    if address in marks:
                        self._lose(source, address, counts)
                    else:
                        counts.fail(address, error)
                except GircseError as error:
                    counts.fail(address, error)
        for address in marks if listing.is_whole else ():
            if address not in listing.items:
                self._lose(source, address, counts)
        return Round(counts.changed, counts.removed, counts.failed, counts.error or listing.note)

    def _bring_in(
        self,
        source: RecurringSource,
        opened: OpenedSource,
        address: str,
        mark: Mark | None,
        allowance: Allowance | None,
        counts: _Counts,
    ) -> None:
        fetched = opened.fetch(address, mark or Mark())
        if fetched is None:
            return
        _, job = self._library.add_document(source.collection, replace(fetched.source, allowance=allowance))
        counts.changed += job is not None
        # After the document: a kill in between fetches it once more, and finds it unchanged.
        self._catalog.mark_item(source, address, fetched.mark)

    def _lose(self, source: RecurringSource, address: str, counts: _Counts) -> None:
        if source.removes:
            uri = canonical_uri(address)
            for key in self._catalog.document_keys(source.collection, uri_prefix=uri):
                if key.uri == uri:
                    self._library.delete_document(key.id)
                    counts.removed += 1
        self._catalog.mark_item(source, address, None)


def to_fetch(listing: Listing, marks: Mapping[str, Mark]) -> list[str]:
    """What is new, or may have changed. Of a list that is not whole what it named before, too."""
    named = [address for address, mark in listing.items.items() if mark is None or marks.get(address) != mark]
    return named if listing.is_whole else [*named, *(each for each in marks if each not in listing.items)]
