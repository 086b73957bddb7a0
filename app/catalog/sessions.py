"""The database shared by the parts of a catalog, its transactions, and helpers for rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import wraps
from typing import ParamSpec, TypeVar

from sqlalchemy import Engine, TableClause, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.catalog.engine import errors_translated, writing
from app.catalog.lock_waits import Turns, one_transaction
from app.catalog.tables import CollectionRow, Table
from app.errors import UnknownCollectionError
from app.types.documents import utc_now

P = ParamSpec("P")
T = TypeVar("T")


def collection_row(session: Session, name: str, *, is_locked: bool = False) -> CollectionRow:
    """`is_locked`: lock the row until the transaction ends. Raises UnknownCollectionError."""
    row = session.get(CollectionRow, name, with_for_update={"key_share": True} if is_locked else None)
    if row is None:
        raise unknown_collection(session, name)
    return row


def unknown_collection(session: Session, name: str) -> UnknownCollectionError:
    return UnknownCollectionError(name, list(session.scalars(select(CollectionRow.name))))


def add_unless_taken(session: Session, row: Table) -> bool:
    """Add the row; False if its key exists, which another process may just have added."""
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        return False
    return True


def again_if_taken(write: Callable[P, T]) -> Callable[P, T]:
    """Decorator for update-or-insert transactions: runs again if another process inserts the row first, so that the
    second run updates it.
    """

    @wraps(write)
    def written(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return write(*arguments, **named)
        except IntegrityError:
            return write(*arguments, **named)

    return written


def insert_into(session: Session, table: type[Table] | TableClause) -> postgresql.Insert | sqlite.Insert:
    """An INSERT that supports ON CONFLICT."""
    dialect = session.get_bind().dialect.name
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


class Database:
    """The database that all parts of a catalog share.

    `clock` returns the current UTC time. Clocks of processes may differ; fencing tokens keep jobs consistent.
    """

    def __init__(self, engine: Engine, *, clock: Callable[[], datetime] = utc_now) -> None:
        self.engine = engine
        self.clock = clock
        self._writer = writing(engine)
        self._turns = Turns() if engine.dialect.name == "sqlite" else None

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A read transaction."""
        with errors_translated(self.engine), one_transaction(), _session(self.engine) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A write transaction; on SQLite it takes the write lock at its start."""
        with (
            errors_translated(self.engine),
            one_transaction(),
            nullcontext() if self._turns is None else self._turns.turn(),
            _session(self._writer) as session,
        ):
            yield session


class CatalogPart:
    """One subject of the catalog. Each public method of a part is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database


@contextmanager
def _session(engine: Engine) -> Iterator[Session]:
    with Session(engine, expire_on_commit=False, autoflush=False) as session, session.begin():
        yield session
