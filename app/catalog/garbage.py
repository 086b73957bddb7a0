"""Garbage: vector indexes, files and labels that the catalog no longer needs.

The transaction that makes a thing unneeded adds its row. Reserving a name for a new index also adds a garbage row, due
later, so that the index is removed if its builder dies before using it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, delete, not_, or_, select, update
from sqlalchemy.orm import Session

from app.catalog.sessions import CatalogPart, insert_into
from app.catalog.tables import DocumentRow, GarbageRow, IndexNumberRow
from app.errors import ConflictError
from app.types.documents import GarbageItem, GarbageKind

# Longer than any reservation. Rows that are due later were noted while the clock was ahead.
_FARTHEST = timedelta(days=1)


class SqlGarbage(CatalogPart):
    """Lists garbage for the garbage collector."""

    def due(self, *, limit: int = 100) -> list[GarbageItem]:
        with self._database.reading() as session:
            statement = select(GarbageRow).where(_is_due(self._database.clock()))
            rows = session.scalars(statement.order_by(GarbageRow.due_at).limit(limit))
            return [GarbageItem(row.kind, row.name, row.due_at) for row in rows]

    def names(self, kind: GarbageKind) -> list[str]:
        """All garbage of this kind, due or not."""
        with self._database.reading() as session:
            return of_kind(session, kind)

    def note(self, kind: GarbageKind, names: Sequence[str], *, due_in: timedelta) -> None:
        with self._database.writing() as session:
            note(session, kind, names, self._database.clock() + due_in)

    def forget(self, garbage_item: GarbageItem) -> None:
        """Unless it was noted again after `garbage_item` was read."""
        with self._database.writing() as session:
            session.execute(
                delete(GarbageRow).where(
                    GarbageRow.kind == garbage_item.kind,
                    GarbageRow.name == garbage_item.name,
                    GarbageRow.due_at == garbage_item.due_at,
                )
            )

    def needs_file(self, content_hash: str) -> bool:
        """True if any document uses this file."""
        statement = select(DocumentRow.id).where(DocumentRow.content_hash == content_hash).limit(1)
        with self._database.reading() as session:
            return session.scalar(statement) is not None


def note(session: Session, kind: GarbageKind, names: Iterable[str], due_at: datetime) -> None:
    rows = [{"kind": kind, "name": name, "due_at": due_at} for name in sorted(set(names))]
    if rows:
        insert = insert_into(session, GarbageRow)
        statement = insert.on_conflict_do_update(
            index_elements=["kind", "name"], set_={"due_at": insert.excluded.due_at}
        )
        session.execute(statement, rows)


def of_kind(session: Session, kind: GarbageKind) -> list[str]:
    return list(session.scalars(select(GarbageRow.name).where(GarbageRow.kind == kind)))


def adopt_index(session: Session, index: str, now: datetime) -> None:
    """Start using a reserved index: delete its garbage row. Raises ConflictError if the reservation has expired."""
    statement = delete(GarbageRow).where(_is_reserved(index, now))
    if session.scalar(statement.returning(GarbageRow.name)) is None:
        raise ConflictError(f"The reservation of the index {index!r} has expired: start again.")


def prolong(session: Session, index: str, now: datetime, until: datetime) -> bool:
    statement = update(GarbageRow).where(_is_reserved(index, now)).values(due_at=until).returning(GarbageRow.name)
    return session.scalar(statement) is not None


def _is_reserved(index: str, now: datetime) -> ColumnElement[bool]:
    return and_(GarbageRow.kind == GarbageKind.INDEX, GarbageRow.name == index, not_(_is_due(now)))


def _is_due(now: datetime) -> ColumnElement[bool]:
    return or_(GarbageRow.due_at <= now, GarbageRow.due_at > now + _FARTHEST)


def next_index(session: Session, collection: str) -> str:
    """A name that no index ever had, so that a worker with a lost lease cannot write to a newer index."""
    insert = insert_into(session, IndexNumberRow).values(collection=collection, last=1)
    statement = insert.on_conflict_do_update(
        index_elements=["collection"], set_={"last": IndexNumberRow.last + 1}
    ).returning(IndexNumberRow.last)
    return f"{collection}--{session.scalar(statement)}"
