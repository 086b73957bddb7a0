"""Synced sources: content fetched into a collection on a schedule, and the results of each sync."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from app.types.documents import Source

MAX_SOURCES = 200  # per collection
MAX_ITEMS = 5_000  # per source, if each item takes a request to see whether it changed
MAX_LISTED_ITEMS = 50_000  # per source, if its listing says which items changed
MAX_PATTERNS, MAX_PATTERN_CHARACTERS = 50, 300
SHORTEST_INTERVAL, LONGEST_INTERVAL = timedelta(minutes=5), timedelta(days=31)


class SourceKind(StrEnum):
    PAGE = "page"
    FEED = "feed"  # RSS or Atom: the pages that its entries link to
    SITEMAP = "sitemap"  # or a sitemap index
    GIT = "git"  # files of a repository
    IMAP = "imap"  # messages of folders of a mailbox
    S3 = "s3"  # objects of a bucket


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Optional settings of a synced source. `patterns`: select files, objects or mail folders, in .gitignore syntax;
    empty: all, or for mail the inbox. `branch`: branch or tag of a repository; empty: its default branch.
    `credentials`: name of an operator's file."""

    patterns: tuple[str, ...] = ()
    branch: str = ""
    credentials: str = ""


@dataclass(frozen=True, slots=True)
class ItemMark:
    """ETag and modification time, by which a server tells whether an item has changed."""

    etag: str = ""
    modified: str = ""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A fetched item. The `media_type` of its source is empty if no parser supports it."""

    source: Source
    mark: ItemMark


@dataclass(frozen=True, slots=True)
class Listing:
    """Addresses of the items with their current marks. Without a mark, only fetching shows whether an item changed.

    `is_whole`: items that are not listed no longer exist, as in a sitemap. A feed lists only new items.
    """

    items: Mapping[str, ItemMark | None]
    is_whole: bool
    note: str | None = None  # for users: what the listing leaves out

    @classmethod
    def unmarked(cls, addresses: Iterable[str], *, is_whole: bool) -> Listing:
        return cls(dict.fromkeys(addresses), is_whole)


@dataclass(frozen=True, slots=True)
class RecurringSource:
    id: str
    collection: str
    kind: SourceKind
    address: str
    every: timedelta
    removes: bool  # whether documents of vanished items are deleted
    owner: str
    next_at: datetime
    options: SourceOptions = SourceOptions()
    is_running: bool = False
    last_at: datetime | None = None
    error: str | None = None
    items: int = 0
    changed: int = 0  # in the last round, like the next two
    removed: int = 0
    failed: int = 0
    fencing_token: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True)
class Round:
    """Result of one sync. `error`: why the listing failed, or why the first item failed."""

    changed: int = 0
    removed: int = 0
    failed: int = 0
    error: str | None = None


Marks = Mapping[str, ItemMark]
"""Marks by address, of the items that are documents."""
