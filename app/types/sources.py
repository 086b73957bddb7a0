"""Sources that come again: what is fetched on a schedule into a collection, and how that went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from app.types.documents import Source

MAX_SOURCES = 200  # of a collection
MAX_ITEMS = 5_000  # of a source, each of which is asked for by itself
MAX_LISTED_ITEMS = 50_000  # of one whose list says what has changed
MAX_PATTERNS, MAX_PATTERN_CHARACTERS = 50, 300
SHORTEST_INTERVAL, LONGEST_INTERVAL = timedelta(minutes=5), timedelta(days=31)


class SourceKind(StrEnum):
    PAGE = "page"
    FEED = "feed"  # RSS or Atom: the pages that its entries link to
    SITEMAP = "sitemap"  # or an index of such
    GIT = "git"  # files of a repository
    IMAP = "imap"  # messages of folders of a mailbox
    S3 = "s3"  # objects of a bucket


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """`patterns`, in the syntax of .gitignore, choose among files, objects and mail folders; none: all, and of mail the
    inbox. `branch`: of a repository, or a tag; empty: its own. `credentials` names a file of the operator."""

    patterns: tuple[str, ...] = ()
    branch: str = ""
    credentials: str = ""


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
    """Addresses of the items, with the mark that each has now; without one only fetching tells whether it changed.

    `is_whole`: what is not among them is there no more, as in a sitemap; a feed only names what is new.
    """

    items: Mapping[str, Mark | None]
    is_whole: bool
    note: str | None = None  # what it leaves out that a person may miss

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
    removes: bool  # documents of what vanished
    owner: str
    next_at: datetime
    options: SourceOptions = SourceOptions()
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
