"""Standing searches: saved searches that are asked of every new chunk, what they found, and how that is delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from app.types.search import Match
from app.types.searches import SearchQuestion

MAX_KEPT_MATCHES = 5_000  # of one search; the oldest go
MAX_DELIVERED_MATCHES = 100  # in one delivery
MAX_WEBHOOK_CHARACTERS = 2_000


class Strength(StrEnum):
    """How well a passage has to answer: `match` of a hit, or better."""

    FAIR = "fair"
    STRONG = "strong"

    def is_reached_by(self, match: Match) -> bool:
        return match is Match.STRONG or (self is Strength.FAIR and match is Match.FAIR)


class Channel(StrEnum):
    """By what a person is told; the list and the feed are there always."""

    WEBHOOK = "webhook"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class Watch:
    """What a person says of it. `alert` names one of the operator's targets (GIRCSE_ALERTS_FILE)."""

    strength: Strength = Strength.FAIR
    webhook: str | None = None
    alert: str | None = None


@dataclass(frozen=True, slots=True)
class StandingSearch:
    """`id` is that of the saved search. `webhook_secret` signs what is sent there, `feed_token` opens the feed."""

    id: str
    owner: str
    name: str
    collection: str
    request: SearchQuestion
    watch: Watch
    since: datetime
    feed_token: str = field(repr=False)
    webhook_secret: str = field(repr=False)
    error: str | None = None  # why it cannot be asked
    unseen: int = 0


@dataclass(frozen=True, slots=True)
class PreparedSearch:
    """As ingestion asks it. `space` says what `vector` was made under; with another one it is made anew.

    `median` and `deviation` are the scale of `match` when the index had `points` points.
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
    score: float  # cosine; the share of the query's words in mode sparse
    match: Match


@dataclass(frozen=True, slots=True)
class KeptMatch:
    """One that was told, with when."""

    search_id: str
    chunk_id: str
    document_id: str
    score: float
    match: Match
    matched_at: datetime
    is_seen: bool


@dataclass(frozen=True, slots=True)
class Told:
    """What a completion tells the searches that stand over its collection, which were those of `version`."""

    version: int
    matches: Sequence[StandingMatch] = ()


@dataclass(frozen=True, slots=True)
class News:
    """A passage that a standing search found, as its owner reads it."""

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
    """One message by one channel. It keeps its id and its matches however often it is tried, so that a receiver that
    got it twice can tell."""

    id: str
    search_id: str
    channel: Channel
    attempts: int
    fencing_token: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Channels:
    """The last delivery of each channel that did not arrive, and why."""

    failures: Mapping[Channel, str] = field(default_factory=dict)
