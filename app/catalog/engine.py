"""Opens the database: SQLite (WAL, foreign keys on, waits for locks) or PostgreSQL through psycopg 3."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from sqlite3 import Connection as SqliteConnection
from typing import Any

from sqlalchemy import URL, Connection, Engine, ExceptionContext, create_engine, event, make_url
from sqlalchemy.exc import DatabaseError, DataError, InterfaceError, OperationalError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.catalog.damage import is_altered_value, is_damage, is_full, is_of_disk, is_of_schema
from app.catalog.lock_waits import (
    POLL_S,
    PatientPool,
    are_connections_used_up,
    begin_postgres,
    begin_sqlite,
    is_busy,
    left_s,
    note_failure,
    prepare_postgres,
)
from app.catalog.moved_file import refuse_moved
from app.catalog.schema_version import require_known_by
from app.catalog.watched_connection import HangWatch
from app.catalog.write_count import count_writes
from app.errors import CatalogUnavailableError, DamagedCatalogError, GircseError, InputError, full_disk_reason

# Detect a vanished server; the defaults take 15 minutes or never do.
_NOTICE_LOSS = {"connect_timeout": 3, "tcp_user_timeout": 15_000, "keepalives_idle": 10, "keepalives_interval": 3}
# Override PGCLIENTENCODING and the role's settings.
_POSTGRES_ARGUMENTS = {**_NOTICE_LOSS, "client_encoding": "UTF8"}
_log = logging.getLogger(__name__)

_BEGIN = "sqlite_begin"  # execution option: the statement that opens a transaction


def connect(database_url: str) -> Engine:
    """An engine for `sqlite:///FILE` or `postgresql://…`. Creates the folder of a SQLite file; connects lazily."""
    url = make_url(database_url)
    if url.get_backend_name() == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
        try:
            engine = create_engine(url, poolclass=PatientPool, pool_pre_ping=True, connect_args=_POSTGRES_ARGUMENTS)
        except ModuleNotFoundError:
            raise InputError("PostgreSQL needs the package psycopg: pip install 'gircse-search[postgres]'") from None
        watch = HangWatch(engine.dialect.loaded_dbapi)
        event.listen(engine, "do_connect", lambda dialect, record, arguments, named: watch.connect(**named))
        # Run before SQLAlchemy's first query, which fails with a TypeError on SQL_ASCII.
        event.listen(engine, "connect", partial(_require_utf8, url), insert=True)
        event.listen(engine, "connect", prepare_postgres)
        event.listen(engine, "begin", begin_postgres)
        return engine
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        shown = url.render_as_string(hide_password=True)
        raise InputError(f"Unsupported catalog URL {shown!r}: use sqlite:///FILE or postgresql://USER@HOST/NAME.")
    Path(str(url.database)).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    engine = create_engine(url, poolclass=PatientPool, connect_args={"timeout": 0})  # _use_wal and begin_sqlite poll
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    event.listen(engine, "handle_error", _drop_read_only)
    refuse_moved(engine)
    count_writes(engine)
    return engine


def file_of(engine: Engine) -> Path | None:
    """The file of a SQLite catalog, None for PostgreSQL."""
    return Path(str(engine.url.database)) if engine.dialect.name == "sqlite" else None


def writing(engine: Engine) -> Engine:
    """The same engine, but its SQLite transactions take the write lock immediately.

    A deferred transaction that reads and then writes fails with "database is locked" instead of waiting.
    """
    return engine.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})


def _require_utf8(url: URL, connection: Any, _record: object) -> None:
    """Raises InputError: SQL_ASCII returns text as bytes, LATIN1 and others cannot store every text. The server reports
    its encoding when a connection opens, so this costs no query."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise InputError(
            f"The database at {url.render_as_string(hide_password=True)} has the encoding {encoding}; the catalog "
            "needs UTF8. Create one and set GIRCSE_DATABASE_URL to it: "
            "createdb --template=template0 --encoding=UTF8 --locale=C.UTF-8 NAME"
        )


def _prepare_sqlite(connection: SqliteConnection, _record: object) -> None:
    connection.isolation_level = None  # the driver must not open transactions of its own
    _use_wal(connection)
    connection.execute("PRAGMA foreign_keys = ON")


def _use_wal(connection: SqliteConnection) -> None:
    """Polls: while another process opens a new file, SQLite reports SQLITE_BUSY immediately, whatever its timeout."""
    until = time.monotonic() + left_s()
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
            time.sleep(POLL_S)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    begin_sqlite(connection, connection.get_execution_options().get(_BEGIN, "BEGIN"))


def _drop_read_only(context: ExceptionContext) -> None:
    """A connection that SQLite could only open read-only stays read-only, so drop it; the next one may be writable."""
    if "readonly database" in str(context.original_exception):
        context.is_disconnect = True  # empties the pool


@contextmanager
def errors_translated(engine: Engine) -> Iterator[None]:
    """Maps database errors to CatalogUnavailableError or DamagedCatalogError, and to InputError for values that the
    database cannot hold: PostgreSQL takes no NUL, not even in a condition, and both limit numbers.
    """
    try:
        yield
    except DatabaseError as error:
        if is_of_schema(error.orig):
            require_known_by(engine)
        if is_damage(error.orig):
            raise damaged(engine, error.orig) from error
        if isinstance(error, DataError):
            raise _unfit(str(error.orig).partition("\n")[0]) from error
        if not isinstance(error, OperationalError):
            raise
        raise unavailable(engine, error.orig or error) from error
    except OverflowError as error:  # of SQLite's driver
        raise _unfit(error) from error
    except (InterfaceError, PoolTimeoutError) as error:
        raise unavailable(engine, getattr(error, "orig", None) or error) from error
    except StatementError as error:  # a parameter that cannot be converted, such as a time whose UTC is in year 10000
        if not isinstance(error.orig, OverflowError):
            raise
        raise _unfit(error.orig) from error
    except (LookupError, ValueError) as error:
        if isinstance(error, GircseError) or not is_altered_value(error):
            raise
        raise damaged(engine, f"a row holds a value that the catalog never writes: {error}") from error


def _unfit(reason: object) -> InputError:
    return InputError(f"The catalog cannot hold a value of this request: {reason}.")


def unavailable(engine: Engine, cause: BaseException) -> CatalogUnavailableError:
    shown = engine.url.render_as_string(hide_password=True)
    if is_full(cause):
        return CatalogUnavailableError(full_disk_reason(f"the catalog {shown}"))
    if is_busy(cause):
        note_failure()
        _log.warning("The catalog at %s is busy: %s", shown, cause)
        if are_connections_used_up(cause):
            return CatalogUnavailableError(
                f"The catalog at {shown} is busy: all connections are in use. Try again soon. If this goes on, look "
                "for a command or a transaction that has not ended."
            )
        return CatalogUnavailableError(
            f"The catalog at {shown} is busy: another transaction holds a lock. Try again soon. If this goes on, look "
            "for a command or a transaction that has not ended."
        )
    line = " ".join(str(cause).split()).rstrip("?.")  # psycopg reports several lines
    if is_of_disk(cause):
        return CatalogUnavailableError(
            f"The catalog at {shown} cannot be read or written: {line}. Check that its disk is mounted, writable and "
            "without errors."
        )
    return CatalogUnavailableError(
        f"The catalog at {shown} does not answer: {line}. Check GIRCSE_DATABASE_URL and that the database is up."
    )


def damaged(engine: Engine, details: object) -> DamagedCatalogError:
    return DamagedCatalogError.of(
        engine.url.render_as_string(hide_password=True), str(details).strip().replace("\n", " ")
    )
