"""Synced sources in the catalog: their schedule, the lease of each sync, and a mark per item."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import ForeignKey, Index, Select, String, UniqueConstraint, and_, delete, func, or_, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from app.catalog.clock_jumps import FARTHEST
from app.catalog.sessions import CatalogPart, again_if_taken, collection_row
from app.catalog.tables import Table, enum_column
from app.errors import ConflictError, LeaseLostError, NotFoundError
from app.types.sources import MAX_SOURCES, ItemMark, RecurringSource, Round, SourceKind, SourceOptions

_AS_IT_IS = SourceOptions()

_SKEW = timedelta(minutes=10)  # more than the clocks of two machines differ


class RecurringSourceRow(Table):
    __tablename__ = "recurring_source"
    __table_args__ = (UniqueConstraint("collection", "address"), Index("ix_recurring_source_next_at", "next_at"))

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    collection: Mapped[str] = mapped_column(ForeignKey("collection.name", ondelete="CASCADE"))
    kind: Mapped[SourceKind] = mapped_column(enum_column(SourceKind))
    address: Mapped[str]
    every_s: Mapped[int]
    removes: Mapped[bool]
    owner: Mapped[str] = mapped_column(String(64))
    patterns_json: Mapped[str] = mapped_column(default="[]")
    branch: Mapped[str] = mapped_column(default="")
    credentials: Mapped[str] = mapped_column(default="")  # name of a credentials file
    next_at: Mapped[datetime]  # during a sync: the end of its lease
    is_running: Mapped[bool] = mapped_column(default=False)
    fencing_token: Mapped[int] = mapped_column(default=0)
    last_at: Mapped[datetime | None]
    error: Mapped[str | None]
    changed: Mapped[int] = mapped_column(default=0)
    removed: Mapped[int] = mapped_column(default=0)
    failed: Mapped[int] = mapped_column(default=0)

    def as_source(self, items: int) -> RecurringSource:
        return RecurringSource(
            id=self.id,
            collection=self.collection,
            kind=self.kind,
            address=self.address,
            every=timedelta(seconds=self.every_s),
            removes=self.removes,
            owner=self.owner,
            next_at=self.next_at,
            options=SourceOptions(tuple(json.loads(self.patterns_json)), self.branch, self.credentials),
            is_running=self.is_running,
            last_at=self.last_at,
            error=self.error,
            items=items,
            changed=self.changed,
            removed=self.removed,
            failed=self.failed,
            fencing_token=self.fencing_token,
        )


class SourceItemRow(Table):
    __tablename__ = "source_item"

    source_id: Mapped[str] = mapped_column(ForeignKey("recurring_source.id", ondelete="CASCADE"), primary_key=True)
    address: Mapped[str] = mapped_column(primary_key=True)
    etag: Mapped[str]
    modified: Mapped[str]


class SqlSources(CatalogPart):
    def of_collection(self, collection: str) -> list[RecurringSource]:
        """Sorted by address. Raises UnknownCollectionError."""
        statement = select(RecurringSourceRow, _ITEMS).where(RecurringSourceRow.collection == collection)
        with self._database.reading() as session:
            collection_row(session, collection)
            rows = session.execute(statement.order_by(RecurringSourceRow.address))
            return [row.as_source(items) for row, items in rows]

    def get(self, source_id: str) -> RecurringSource:
        """Raises NotFoundError."""
        with self._database.reading() as session:
            return _as_source(session, _row(session, source_id))

    @again_if_taken
    def add(
        self,
        collection: str,
        kind: SourceKind,
        address: str,
        *,
        every: timedelta,
        removes: bool,
        owner: str,
        options: SourceOptions = _AS_IT_IS,
    ) -> RecurringSource:
        """Add a source that is due immediately, or change the one with this address. Raises UnknownCollectionError
        and ConflictError.
        """
        of_collection = select(RecurringSourceRow).where(RecurringSourceRow.collection == collection)
        with self._database.writing() as session:
            collection_row(session, collection)
            row = session.scalar(of_collection.where(RecurringSourceRow.address == address).with_for_update())
            if row is None:
                if (session.scalar(select(func.count()).select_from(of_collection.subquery())) or 0) >= MAX_SOURCES:
                    raise ConflictError(f"{collection!r} has {MAX_SOURCES} sources, the maximum; delete one first.")
                row = RecurringSourceRow(id=str(uuid4()), collection=collection, address=address)
                session.add(row)
            row.owner = owner  # the user who changes a source becomes responsible for it
            row.kind, row.every_s, row.removes = kind, int(every.total_seconds()), removes
            row.patterns_json = json.dumps(list(options.patterns))
            row.branch, row.credentials = options.branch, options.credentials
            if not row.is_running:
                row.next_at = self._database.clock()
            elif session.is_modified(row):  # the running sync uses the old options: start a new one
                row.is_running, row.fencing_token, row.next_at = False, row.fencing_token + 1, self._database.clock()
            session.flush()
            return _as_source(session, row)

    def delete(self, source_id: str) -> None:
        """Delete the source; its documents are kept."""
        with self._database.writing() as session:
            session.delete(_row(session, source_id))

    def hurry(self, source_id: str) -> RecurringSource:
        """Make the source due now."""
        with self._database.writing() as session:
            row = _row(session, source_id)
            if not row.is_running:
                row.next_at = self._database.clock()
            session.flush()
            return _as_source(session, row)

    def claim(self, *, lease: timedelta, most_of_owner: int | None = None) -> RecurringSource | None:
        """A due source, preferring the owner with the fewest running syncs and skipping owners with `most_of_owner`
        of them.
        """
        now = self._database.clock()
        due = _due(now, most_of_owner)
        with self._database.reading() as session:
            if session.scalar(due) is None:  # the usual case, checked without the write lock
                return None
        with self._database.writing() as session:
            row = session.scalar(due.with_for_update(of=RecurringSourceRow, skip_locked=True))
            if row is None:
                return None
            row.is_running, row.fencing_token, row.next_at = True, row.fencing_token + 1, now + lease
            session.flush()
            return _as_source(session, row)

    def prolong(self, source: RecurringSource, *, lease: timedelta) -> None:
        """Raises LeaseLostError."""
        with self._database.writing() as session:
            _held(session, source).next_at = self._database.clock() + lease

    def marks(self, source_id: str) -> dict[str, ItemMark]:
        statement = select(SourceItemRow).where(SourceItemRow.source_id == source_id)
        with self._database.reading() as session:
            return {row.address: ItemMark(row.etag, row.modified) for row in session.scalars(statement)}

    def mark_item(self, source: RecurringSource, address: str, mark: ItemMark | None) -> None:
        """Record the item's mark, or None if the item is no longer a document. Raises LeaseLostError."""
        with self._database.writing() as session:
            _held(session, source)
            if mark is None:
                item = SourceItemRow.source_id == source.id, SourceItemRow.address == address
                session.execute(delete(SourceItemRow).where(*item))
            else:
                session.merge(
                    SourceItemRow(source_id=source.id, address=address, etag=mark.etag, modified=mark.modified)
                )

    def end_round(self, source: RecurringSource, found: Round) -> None:
        now = self._database.clock()
        with self._database.writing() as session:
            row = session.get(RecurringSourceRow, source.id, with_for_update=True)
            if row is None or row.fencing_token != source.fencing_token:
                return
            row.is_running, row.last_at, row.next_at = False, now, now + timedelta(seconds=row.every_s)
            row.changed, row.removed, row.failed, row.error = found.changed, found.removed, found.failed, found.error


_ITEMS = (
    select(func.count())
    .select_from(SourceItemRow)
    .where(SourceItemRow.source_id == RecurringSourceRow.id)
    .correlate(RecurringSourceRow)
    .scalar_subquery()
)


def _due(now: datetime, most_of_owner: int | None) -> Select[RecurringSourceRow]:
    """The next due source; owners with the fewest running syncs come first."""
    row = RecurringSourceRow
    goes_on = select(row.owner, func.count().label("rounds")).where(row.is_running, row.next_at > now)
    own = goes_on.group_by(row.owner).subquery()
    rounds = func.coalesce(own.c.rounds, 0)
    # A clock that was ahead wrote these times; otherwise the source would wait until they come.
    is_ahead = or_(
        row.last_at > now + _SKEW, and_(row.last_at.is_(None) | row.is_running, row.next_at > now + FARTHEST)
    )
    due = select(row).outerjoin(own, own.c.owner == row.owner).where(or_(row.next_at <= now, is_ahead))
    if most_of_owner is not None:
        due = due.where(rounds < most_of_owner)
    return due.order_by(rounds, row.next_at, row.id).limit(1)


def _as_source(session: Session, row: RecurringSourceRow) -> RecurringSource:
    count = session.scalar(select(func.count()).select_from(SourceItemRow).where(SourceItemRow.source_id == row.id))
    return row.as_source(count or 0)


def _row(session: Session, source_id: str) -> RecurringSourceRow:
    row = session.get(RecurringSourceRow, source_id)
    if row is None:
        raise NotFoundError(f"No source with the id {source_id[:80]!r}.")
    return row


def _held(session: Session, source: RecurringSource) -> RecurringSourceRow:
    row = session.get(RecurringSourceRow, source.id, with_for_update=True)
    if row is None or row.fencing_token != source.fencing_token:
        raise LeaseLostError("Another worker took over this sync, or the source was deleted.")
    return row
