"""What is to be removed outside of the catalog, noted in the transaction that made it unneeded.

A physical index is noted from its reservation on, due later: if its maker dies before it is used, it is removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from app.catalog.sessions import insert_into
from app.catalog.tables import GarbageRow, IndexNumberRow
from app.errors import ConflictError
from app.types.documents import GarbageItem, GarbageKind


def note(session: Session, kind: GarbageKind, names: Iterable[str], due_at: datetime) -> None:
    rows = [{"kind": kind, "name": name, "due_at": due_at} for name in sorted(set(names))]
    if rows:
        insert = insert_into(session, GarbageRow)
        statement = insert.on_conflict_do_update(
            index_elements=["kind", "name"], set_={"due_at": insert.excluded.due_at}
        )
        session.execute(statement, rows)


def due(session: Session, now: datetime, limit: int) -> list[GarbageItem]:
    statement = select(GarbageRow).where(GarbageRow.due_at <= now).order_by(GarbageRow.due_at).limit(limit)
    return [GarbageItem(row.kind, row.name, row.due_at) for row in session.scalars(statement)]


def of_kind(session: Session, kind: GarbageKind) -> list[str]:
    return list(session.scalars(select(GarbageRow.name).where(GarbageRow.kind == kind)))


def forget(session: Session, garbage_item: GarbageItem) -> None:
    """Unless it was noted again since it was read."""
    session.execute(
        delete(GarbageRow).where(
            GarbageRow.kind == garbage_item.kind,
            GarbageRow.name == garbage_item.name,
            GarbageRow.due_at == garbage_item.due_at,
        )
    )


def adopt_index(session: Session, index: str, now: datetime) -> None:
    """The reserved index is in use from now on. Raises ConflictError when its reservation has ended."""
    statement = delete(GarbageRow).where(
        GarbageRow.kind == GarbageKind.INDEX, GarbageRow.name == index, GarbageRow.due_at > now
    )
    if session.scalar(statement.returning(GarbageRow.name)) is None:
        raise ConflictError(f"The reservation of the index {index!r} has ended: start again.")


def prolong(session: Session, index: str, now: datetime, until: datetime) -> bool:
    statement = (
        update(GarbageRow)
        .where(GarbageRow.kind == GarbageKind.INDEX, GarbageRow.name == index, GarbageRow.due_at > now)
        .values(due_at=until)
        .returning(GarbageRow.name)
    )
    return session.scalar(statement) is not None


def next_index(session: Session, collection: str) -> str:
    """A name that no index ever had: what a lost worker still writes to an old one cannot reach a new one."""
    insert = insert_into(session, IndexNumberRow).values(collection=collection, last=1)
    statement = insert.on_conflict_do_update(
        index_elements=["collection"], set_={"last": IndexNumberRow.last + 1}
    ).returning(IndexNumberRow.last)
    return f"{collection}--{session.scalar(statement)}"
