"""How long the catalog waits for locks and connections: a few seconds in a request, longer in background work."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, QueuePool
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.types.patience import current_request

LOCK_S = 4.0  # in a request
BACKGROUND_S = 30.0
_NOTABLE_S = 0.5  # a smaller difference is not worth a statement
_AGAIN_S = 0.05  # in a request whose last wait has just timed out
POLL_S = 0.01
_FAIR_S = 0.5
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_LOCK_NOT_AVAILABLE = "55P03"

# time.monotonic() until which the present transaction may wait to begin; None outside of one, and once it has begun
_until: ContextVar[float | None] = ContextVar("gircse_lock_until", default=None)


def patience_s() -> float:
    """How long the current call may wait for a turn, a connection and locks, until its transaction has begun."""
    request = current_request()
    if request is None:
        return BACKGROUND_S
    return _AGAIN_S if request.has_just_failed else LOCK_S


@contextmanager
def one_transaction() -> Iterator[None]:
    """Within the block, the waits for a turn, a connection and locks have one deadline together."""
    token = _until.set(time.monotonic() + patience_s())
    try:
        yield
    finally:
        _until.reset(token)


def left_s() -> float:
    """How long the present transaction may still wait to begin; outside of one, as `patience_s`."""
    until = _until.get()
    return patience_s() if until is None else max(until - time.monotonic(), _AGAIN_S)


def note_failure() -> None:
    if (request := current_request()) is not None:
        request.note_failure()


def is_busy(cause: BaseException | None) -> bool:
    """Whether this error, of a driver, the pool or `Turns`, means that a wait for a lock or a connection timed out."""
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _BUSY
    return isinstance(cause, PoolTimeoutError) or getattr(cause, "sqlstate", None) == _LOCK_NOT_AVAILABLE


def are_connections_used_up(cause: BaseException) -> bool:
    """Whether an error for which `is_busy` holds came from the pool: all of its connections are in use."""
    return isinstance(cause, PoolTimeoutError) and not isinstance(cause, TurnTimeoutError)


class TurnTimeoutError(PoolTimeoutError):
    """Other threads of this process have written for too long."""


class PatientPool(QueuePool):
    """A pool of connections that waits for a free one as long as the current transaction may wait."""

    _timeout = property(lambda self: left_s(), lambda self, seconds: None)


def begin_sqlite(connection: Connection, statement: str) -> None:
    """Begins a transaction. Polls for the write lock more often than SQLite's own handler, which pauses for 0.1 s."""
    driver: Any = connection.connection.dbapi_connection
    seconds = left_s()
    until = time.monotonic() + seconds
    _until.set(None)
    driver.execute("PRAGMA busy_timeout = 0")
    while True:
        try:
            connection.exec_driver_sql(statement)
        except OperationalError as error:
            if not is_busy(error.orig) or time.monotonic() > until:
                raise
            time.sleep(POLL_S)
        else:
            break
    driver.execute(f"PRAGMA busy_timeout = {int(patience_s() * 1000)}")  # of the statements that follow


def prepare_postgres(connection: Any, _record: object) -> None:
    """Sets `lock_timeout` of a new connection to that of requests, so that most transactions need not set it."""
    connection.autocommit = True
    connection.execute(f"SET lock_timeout = {int(LOCK_S * 1000)}")
    connection.autocommit = False


def begin_postgres(connection: Connection) -> None:
    driver: Any = connection.connection.dbapi_connection  # a detached connection has no driver_connection
    if driver is None or driver.autocommit:
        return  # lost; or PostgreSQL would warn that SET LOCAL has no effect outside of a transaction
    seconds = left_s()
    _until.set(None)
    if abs(seconds - LOCK_S) > _NOTABLE_S:
        # A connection that streams its results would declare a cursor for it.
        statement = f"SET LOCAL lock_timeout = {int(seconds * 1000)}"
        options = {"stream_results": False, "yield_per": None}
        connection.exec_driver_sql(statement, execution_options=options)


class Turns:
    """A fair lock in front of SQLite's write lock, for the threads of this process. A waiting thread holds no
    connection, so readers can use all of them.

    A thread that finds the lock free takes it at once, ahead of waiting threads, because switching threads takes time;
    but a thread that has waited for _FAIR_S comes first. With a semaphore, one of 40 threads with 20 writes each waited
    nearly until all others had finished.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writer: _Writer | None = None  # whose turn it is
        self._waiting: deque[_Writer] = deque()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Raises TurnTimeoutError."""
        seconds = left_s()
        mine = _Writer(time.monotonic())
        try:
            if not self._wait(mine, seconds):
                raise TurnTimeoutError(f"other writes have not ended within {seconds:.2g} s")
            yield
        finally:  # also after Ctrl-C while it waited: the turn may have been given to it meanwhile
            self._leave(mine)

    def _wait(self, mine: _Writer, seconds: float) -> bool:
        with self._lock:
            if self._takes(mine):
                return True
            self._waiting.append(mine)
        while mine.called.wait(max(mine.since + seconds - time.monotonic(), 0)):
            with self._lock:
                mine.called.clear()
                if self._takes(mine):
                    return True
        return False

    def _takes(self, mine: _Writer) -> bool:
        if self._writer is None:
            self._writer = mine
            if mine in self._waiting:
                self._waiting.remove(mine)
        return self._writer is mine

    def _leave(self, mine: _Writer) -> None:
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
            if self._writer is mine:
                self._writer = None
            if self._writer is None and self._waiting:  # `mine` may have been called, but has timed out
                first = self._waiting[0]
                if time.monotonic() - first.since > _FAIR_S:
                    self._writer = self._waiting.popleft()
                first.called.set()


@dataclass(eq=False, slots=True)
class _Writer:
    since: float  # time.monotonic()
    called: threading.Event = field(default_factory=threading.Event)
