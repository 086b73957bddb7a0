"""Standing searches (alerts): saved searches matched against every new chunk, their matches, and their delivery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from app.types.search import Match
from app.types.searches import SearchQuestion

MAX_KEPT_MATCHES = 5_000  # per search; the oldest are deleted
MAX_DELIVERED_MATCHES = 100  # per delivery
MAX_WEBHOOK_CHARACTERS = 2_000


class Strength(StrEnum):
    """The least grade (`match`) at which a passage is reported."""

    FAIR = "fair"
    STRONG = "strong"

    def is_reached_by(self, match: Match) -> bool:
        return match is Match.STRONG or (self is Strength.FAIR and match is Match.FAIR)


class Channel(StrEnum):
    """Optional channels of notification; the list and the feed always exist."""

    WEBHOOK = "webhook"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class Watch:
    """A user's settings of a standing search. `alert`: name of one of the operator's targets (GIRCSE_ALERTS_FILE)."""

    strength: Strength = Strength.FAIR
    webhook: str | None = None
    alert: str | None = None


@dataclass(frozen=True, slots=True)
class StandingSearch:
    """A saved search that reports new matches. `id`: of the saved search. `webhook_secret`: signs messages to the
    webhook. `feed_token`: grants access to the feed."""

    id: str
    owner: str
    name: str
    collection: str
    request: SearchQuestion
    watch: Watch
    since: datetime
    feed_token: str = field(repr=False)
    webhook_secret: str = field(repr=False)
    error: str | None = None  # why it cannot run
    unseen: int = 0


@dataclass(frozen=True, slots=True)
class PreparedSearch:
    """A standing search in the form that ingestion uses. `space` identifies the vector space of `vector`; if the
    collection's differs, the vector is computed again.

    `median` and `deviation` are the scale of `match`, measured when the index had `points` points.
    """

    id: str
    owner: str
    request: SearchQuestion
    strength: Strength
    space: str = ""
    vector: Sequence[float] = ()
    median: float = 0.0
    deviation: float = 0.0
    points: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class StandingMatch:
    search_id: str
    chunk_id: str
    document_id: str
    score: float  # cosine; in mode sparse the share of the query's words
    match: Match


@dataclass(frozen=True, slots=True)
class KeptMatch:
    """A stored match with its time."""

    search_id: str
    chunk_id: str
    document_id: str
    score: float
    match: Match
    matched_at: datetime
    is_seen: bool


@dataclass(frozen=True, slots=True)
class Told:
    """New matches for the collection's standing searches, as of `version`."""

    version: int
    matches: Sequence[StandingMatch] = ()


@dataclass(frozen=True, slots=True)
class News:
    """A match as shown to the search's owner, with its passage."""

    chunk_id: str
    document_id: str
    title: str
    uri: str
    text: str
    page: int | None
    start: int
    end: int
    score: float
    match: Match
    matched_at: datetime
    is_seen: bool


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message by one channel. Retries keep the id and the matches, so that a receiver can detect duplicates."""

    id: str
    search_id: str
    channel: Channel
    attempts: int
    fencing_token: int
    created_at: datetime
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Channels:
    """For each channel whose last delivery failed, the reason."""

    failures: Mapping[Channel, str] = field(default_factory=dict)
