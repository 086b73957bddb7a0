"""Tables of standing searches, their matches, and the deliveries of matches."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import datetime

import numpy as np
from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.catalog.search_tables import SavedSearchRow
from app.catalog.tables import Table, enum_column
from app.types.search import Match
from app.types.standing import (
    Channel,
    Delivery,
    KeptMatch,
    PreparedSearch,
    StandingSearch,
    Strength,
    Watch,
)

_VECTOR = np.dtype("<f4")


def kept_vector(vector: Sequence[float]) -> str:
    return b64encode(np.asarray(vector, dtype=_VECTOR).tobytes()).decode("ascii")


class DeliveryState(str):
    WAITING, SENT, FAILED = "waiting", "sent", "failed"


class StandingSearchRow(Table):
    """A saved search that monitors one collection. Name and request are those of the saved search."""

    __tablename__ = "standing_search"
    __table_args__ = (Index("ix_standing_search_collection", "collection"),)

    search_id: Mapped[str] = mapped_column(ForeignKey("saved_search.id", ondelete="CASCADE"), primary_key=True)
    owner: Mapped[str] = mapped_column(String(64))
    collection: Mapped[str] = mapped_column(ForeignKey("collection.name", ondelete="CASCADE"))
    strength: Mapped[Strength] = mapped_column(enum_column(Strength))
    since: Mapped[datetime]
    feed_token: Mapped[str] = mapped_column(String(64), unique=True)
    webhook: Mapped[str | None]
    webhook_secret: Mapped[str] = mapped_column(String(80))
    alert: Mapped[str | None]
    space: Mapped[str] = mapped_column(String(64), default="")
    vector: Mapped[str] = mapped_column(Text, default="")  # float32 in base64, because backups hold rows as JSON
    median: Mapped[float] = mapped_column(default=0.0)
    deviation: Mapped[float] = mapped_column(default=0.0)
    points: Mapped[int] = mapped_column(default=0)
    error: Mapped[str | None]

    def as_standing(self, saved: SavedSearchRow, unseen: int) -> StandingSearch:
        return StandingSearch(
            id=self.search_id,
            owner=self.owner,
            name=saved.name,
            collection=self.collection,
            request=json.loads(saved.request_json),
            watch=Watch(self.strength, self.webhook, self.alert),
            since=self.since,
            feed_token=self.feed_token,
            webhook_secret=self.webhook_secret,
            error=self.error,
            unseen=unseen,
        )

    def as_prepared(self, request_json: str) -> PreparedSearch:
        return PreparedSearch(
            id=self.search_id,
            owner=self.owner,
            request=json.loads(request_json),
            strength=self.strength,
            space=self.space,
            vector=np.frombuffer(b64decode(self.vector), dtype=_VECTOR).tolist(),
            median=self.median,
            deviation=self.deviation,
            points=self.points,
            error=self.error,
        )


class StandingMatchRow(Table):
    """A new chunk that matched a standing search. `*_delivery`: the delivery that reports it on that channel."""

    __tablename__ = "standing_match"
    __table_args__ = (
        Index("ix_standing_match_document_id", "document_id"),
        Index("ix_standing_match_search_id_matched_at", "search_id", "matched_at"),
    )

    search_id: Mapped[str] = mapped_column(
        ForeignKey("standing_search.search_id", ondelete="CASCADE"), primary_key=True
    )
    chunk_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    document_id: Mapped[str] = mapped_column(ForeignKey("document.id", ondelete="CASCADE"))
    score: Mapped[float]
    match: Mapped[Match] = mapped_column(enum_column(Match))
    matched_at: Mapped[datetime]
    is_seen: Mapped[bool] = mapped_column(default=False)
    webhook_delivery: Mapped[str | None] = mapped_column(String(36))
    alert_delivery: Mapped[str | None] = mapped_column(String(36))

    def as_kept(self) -> KeptMatch:
        return KeptMatch(
            self.search_id, self.chunk_id, self.document_id, self.score, self.match, self.matched_at, self.is_seen
        )


class StandingDeliveryRow(Table):
    __tablename__ = "standing_delivery"
    __table_args__ = (Index("ix_standing_delivery_state_not_before", "state", "not_before"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    search_id: Mapped[str] = mapped_column(ForeignKey("standing_search.search_id", ondelete="CASCADE"), index=True)
    channel: Mapped[Channel] = mapped_column(enum_column(Channel))
    state: Mapped[str] = mapped_column(String(16))
    attempts: Mapped[int] = mapped_column(default=0)
    fencing_token: Mapped[int] = mapped_column(default=0)
    not_before: Mapped[datetime]  # while sending: the end of the lease
    error: Mapped[str | None]
    created_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]

    def as_delivery(self) -> Delivery:
        return Delivery(self.id, self.search_id, self.channel, self.attempts, self.fencing_token, self.created_at)
