"""Notifies idle workers: PostgreSQL uses NOTIFY in the transaction that makes a job due; SQLite reports any change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, Engine, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.catalog.engine import errors_translated, unavailable
from app.ports.ledger import JobListener

_CHANNEL = "gircse_job"
_SQLITE_LOOK_S = 0.1


def notify(session: Session) -> None:
    """Notify every listener, on commit, that a job may be due."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_notify(_CHANNEL, "")))


@contextmanager
def listening(engine: Engine) -> Iterator[JobListener]:
    """Listen on a dedicated connection, so that notifications between two waits are not lost."""
    if engine.dialect.name != "postgresql":
        with errors_translated(engine):
            looking = engine.connect()
        with closing(looking):
            yield _SqliteListener(engine, looking)
        return
    with errors_translated(engine):
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        listener = _PostgresListener(engine, connection.connection.driver_connection)
        connection.detach()  # close it at the end instead of returning it to the pool
    try:
        with errors_translated(engine):
            connection.execute(text(f"LISTEN {_CHANNEL}"))
        yield listener
    finally:
        with suppress(listener.error, DBAPIError):  # the server may be gone
            connection.close()


class _SqliteListener:
    """SQLite has no notifications, so poll `PRAGMA data_version`, which changes when another connection writes."""

    def __init__(self, engine: Engine, connection: Connection) -> None:
        self._engine = engine
        self._connection = connection
        self._version = self._data_version()

    def wait(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while (version := self._data_version()) == self._version:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(left_s, _SQLITE_LOOK_S))
        self._version = version
        return True

    def _data_version(self) -> int:
        with errors_translated(self._engine):
            version: int = self._connection.exec_driver_sql("PRAGMA data_version").scalar_one()
            self._connection.rollback()
        return version


class _PostgresListener:
    def __init__(self, engine: Engine, connection: Any) -> None:
        dbapi: Any = engine.dialect.loaded_dbapi  # psycopg is an optional extra
        self.error: type[Exception] = dbapi.Error
        self._engine = engine
        self._connection = connection

    def wait(self, timeout_s: float) -> bool:
        try:
            return any(True for _ in self._connection.notifies(timeout=timeout_s, stop_after=1))
        except self.error as error:
            raise unavailable(self._engine, error) from error
