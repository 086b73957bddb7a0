"""Wakes idle workers: on PostgreSQL by NOTIFY in the transaction that makes a job due; on SQLite they only poll."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Engine, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.catalog.engine import faults_translated, unavailable
from app.ports import JobListener

_CHANNEL = "gircse_job"


def ring(session: Session) -> None:
    """Tells every listener, once this transaction is committed, that a job may be due."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_notify(_CHANNEL, "")))


@contextmanager
def listening(engine: Engine) -> Iterator[JobListener]:
    """Listens from now on, on a connection of its own: what is told between two waits is not lost."""
    if engine.dialect.name != "postgresql":
        yield _Clock()
        return
    with faults_translated(engine):
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        listener = _PostgresListener(engine, connection.connection.driver_connection)
        connection.detach()  # it is closed at the end, not put back into the pool
    try:
        with faults_translated(engine):
            connection.execute(text(f"LISTEN {_CHANNEL}"))
        yield listener
    finally:
        with suppress(listener.fault, DBAPIError):  # the server may be gone
            connection.close()


class _Clock:
    """Hears nothing: what it is for is the pause between two looks."""

    def wait(self, timeout_s: float) -> bool:
        time.sleep(timeout_s)
        return False


class _PostgresListener:
    def __init__(self, engine: Engine, connection: Any) -> None:
        dbapi: Any = engine.dialect.loaded_dbapi  # psycopg, which is an optional extra
        self.fault: type[Exception] = dbapi.Error
        self._engine = engine
        self._connection = connection

    def wait(self, timeout_s: float) -> bool:
        try:
            return any(True for _ in self._connection.notifies(timeout=timeout_s, stop_after=1))
        except self.fault as error:
            raise unavailable(self._engine, error) from error
