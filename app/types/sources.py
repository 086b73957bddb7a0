"""Sources that come again: what is fetched on a schedule into a collection, and how that went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from app.types.documents import Source

MAX_SOURCES = 200  # of a collection
MAX_ITEMS = 5_000  # of a source
SHORTEST_INTERVAL, LONGEST_INTERVAL = timedelta(minutes=5), timedelta(days=31)


class SourceKind(StrEnum):
    PAGE = "page"
    FEED = "feed"  # RSS or Atom: the pages that its entries link to
    SITEMAP = "sitemap"  # or an index of such


@dataclass(frozen=True, slots=True)
class Mark:
    """By what a server tells whether something has changed since."""

    etag: str = ""
    modified: str = ""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a server gave, which is to be read as `media_type`; empty where nothing here reads that."""

    source: Source
    mark: Mark


@dataclass(frozen=True, slots=True)
class Listing:
    """Addresses of the items. `is_whole`: what is not among them is there no more, as in a sitemap; a feed only names
    what is new."""

    items: Sequence[str]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class RecurringSource:
    id: str
    collection: str
    kind: SourceKind
    address: str
    every: timedelta
    removes: bool  # documents of what vanished
    owner: str
    next_at: datetime
    is_running: bool = False
    last_at: datetime | None = None
    error: str | None = None
    items: int = 0
    changed: int = 0  # in the last round, as the next two
    removed: int = 0
    failed: int = 0
    fencing_token: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True)
class Round:
    """How one round went. `error`: why nothing could be listed, or why the first item failed."""

    changed: int = 0
    removed: int = 0
    failed: int = 0
    error: str | None = None


Marks = Mapping[str, Mark]
"""Of the items that are documents, by address."""
