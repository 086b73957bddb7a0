"""Deliveries of matches: formed, leased, and retried until they arrive. Each match belongs to one delivery per
channel, and a delivery keeps its id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import delete, or_, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.catalog.search_tables import SavedSearchRow
from app.catalog.sessions import CatalogPart
from app.catalog.standing import present_matches_of
from app.catalog.standing_tables import DeliveryState, StandingDeliveryRow, StandingMatchRow, StandingSearchRow
from app.types.standing import MAX_DELIVERED_MATCHES, Channel, Delivery, KeptMatch, StandingSearch

_FARTHEST = timedelta(hours=4)  # longer than any lease or pause between two attempts
_KEPT_FOR = timedelta(days=14)  # after its end
_NOBODY: Mapping[str, int] = {}
_COLUMNS: dict[Channel, InstrumentedAttribute[str | None]] = {
    Channel.WEBHOOK: StandingMatchRow.webhook_delivery,
    Channel.ALERT: StandingMatchRow.alert_delivery,
}


class SqlDeliveries(CatalogPart):
    """Deliveries of matches, by channel."""

    def form(self) -> int:
        """Form deliveries from matches that have none yet. Returns the number of deliveries."""
        formed = 0
        for channel in Channel:
            for search_id in self._with_undelivered(channel):
                with self._database.writing() as session:
                    formed += _form(session, search_id, channel, self._database.clock())
        return formed

    def _with_undelivered(self, channel: Channel) -> Sequence[str]:
        address = StandingSearchRow.webhook if channel is Channel.WEBHOOK else StandingSearchRow.alert
        has_undelivered = (
            select(StandingMatchRow.chunk_id)
            .where(StandingMatchRow.search_id == StandingSearchRow.search_id, _COLUMNS[channel].is_(None))
            .exists()
        )
        with self._database.reading() as session:
            return session.scalars(
                select(StandingSearchRow.search_id).where(address.is_not(None), has_undelivered)
            ).all()

    def claim(
        self, *, lease: timedelta, in_flight: Mapping[str, int] = _NOBODY, most_of_owner: int = 1
    ) -> Delivery | None:
        """A delivery that is due, or whose sender's lease expired. `in_flight`: deliveries of the caller by owner;
        owners without any come first, and those with `most_of_owner` are skipped.
        """
        now = self._database.clock()
        not_before = StandingDeliveryRow.not_before
        is_due = or_(not_before <= now, not_before > now + _FARTHEST)  # the latter: the clock was ahead
        owner = StandingSearchRow.owner
        full = [name for name, count in in_flight.items() if count >= most_of_owner]
        due = (
            select(StandingDeliveryRow, owner)
            .join(StandingSearchRow, StandingSearchRow.search_id == StandingDeliveryRow.search_id)
            .where(StandingDeliveryRow.state == DeliveryState.WAITING, is_due, owner.not_in(full))
            .order_by(owner.in_(list(in_flight)), StandingDeliveryRow.not_before, StandingDeliveryRow.id)
            .limit(1)
        )
        with self._database.reading() as session:
            if session.execute(due).first() is None:  # the usual case, checked without the write lock
                return None
        with self._database.writing() as session:
            found = session.execute(due.with_for_update(of=StandingDeliveryRow, skip_locked=True)).first()
            if found is None:
                return None
            row, name = found
            row.attempts, row.fencing_token, row.not_before = row.attempts + 1, row.fencing_token + 1, now + lease
            session.flush()
            return replace(row.as_delivery(), owner=name)

    def delivered(self, delivery: Delivery) -> tuple[StandingSearch, list[KeptMatch]] | None:
        """The delivery's search and its matches that still exist. None if nobody watches any more."""
        with self._database.reading() as session:
            pair = session.execute(
                select(StandingSearchRow, SavedSearchRow)
                .join(SavedSearchRow)
                .where(StandingSearchRow.search_id == delivery.search_id)
            ).first()
            if pair is None:
                return None
            column = _COLUMNS[delivery.channel]
            rows = session.scalars(
                present_matches_of(delivery.search_id)
                .where(column == delivery.id)
                .order_by(StandingMatchRow.score.desc(), StandingMatchRow.chunk_id)
            )
            return pair[0].as_standing(pair[1], 0), [row.as_kept() for row in rows]

    def finish(self, delivery: Delivery, *, error: str | None = None) -> None:
        """Mark the delivery as arrived, or, with an error, as given up."""
        self._end(delivery, DeliveryState.FAILED if error else DeliveryState.SENT, error, None)

    def put_off(self, delivery: Delivery, error: str, *, retry_in: timedelta) -> None:
        self._end(delivery, DeliveryState.WAITING, error, retry_in)

    def failures(self, search_ids: Sequence[str]) -> dict[str, dict[Channel, str]]:
        """By search and channel, the error of the newest delivery, if it has not arrived."""
        statement = select(StandingDeliveryRow).where(StandingDeliveryRow.search_id.in_(search_ids))
        errors: dict[str, dict[Channel, str]] = {}
        with self._database.reading() as session:
            for row in session.scalars(statement.order_by(StandingDeliveryRow.created_at)) if search_ids else ():
                of_search = errors.setdefault(row.search_id, {})
                if row.error:
                    of_search[row.channel] = row.error
                elif row.state == DeliveryState.SENT:
                    of_search.pop(row.channel, None)
        return errors

    def _end(self, delivery: Delivery, state: str, error: str | None, retry_in: timedelta | None) -> None:
        now = self._database.clock()
        with self._database.writing() as session:
            session.execute(
                update(StandingDeliveryRow)
                .where(
                    StandingDeliveryRow.id == delivery.id,
                    StandingDeliveryRow.fencing_token == delivery.fencing_token,
                    StandingDeliveryRow.state == DeliveryState.WAITING,
                )
                .values(
                    state=state,
                    error=error,
                    not_before=now + (retry_in or timedelta()),
                    finished_at=None if retry_in else now,
                )
            )
            session.execute(delete(StandingDeliveryRow).where(StandingDeliveryRow.finished_at < now - _KEPT_FOR))


def _form(session: Session, search_id: str, channel: Channel, now: datetime) -> int:
    """Form one delivery from matches without one, up to its maximum size."""
    column = _COLUMNS[channel]
    # Locked, so that two processes cannot form the same delivery.
    held = session.scalar(
        select(StandingSearchRow.search_id).where(StandingSearchRow.search_id == search_id).with_for_update()
    )
    untold = select(StandingMatchRow.chunk_id).where(StandingMatchRow.search_id == search_id, column.is_(None))
    order = (StandingMatchRow.matched_at, StandingMatchRow.chunk_id)
    ids = session.scalars(untold.order_by(*order).limit(MAX_DELIVERED_MATCHES)).all() if held else []
    if not ids:
        return 0
    row = StandingDeliveryRow(
        id=str(uuid4()),
        search_id=search_id,
        channel=channel,
        state=DeliveryState.WAITING,
        attempts=0,
        fencing_token=0,
        not_before=now,
        created_at=now,
    )
    session.add(row)
    session.flush()
    session.execute(
        update(StandingMatchRow)
        .where(StandingMatchRow.search_id == search_id, StandingMatchRow.chunk_id.in_(ids))
        .values({column: row.id})
        .execution_options(synchronize_session=False)
    )
    return 1
