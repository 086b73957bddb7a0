"""Counts the write transactions of a SQLite file, to notice a write-ahead log (-wal) that is older than the file.

SQLite replays any complete log beside a file, even one that was copied back from an earlier state: old pages then hide
newer ones, and are soon written over them. Each transaction raises the count in the first page. So the count of the
file with its log is never below that of the file alone, unless the log is an older one.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, Engine, event

from app.errors import DamagedCatalogError

_COUNTS = 2**31  # user_version is a signed number of 32 bits
_KEY = "changes at begin"


def count_writes(engine: Engine) -> None:
    """From then on, every transaction of the engine that changes a row also raises the count. Its first connection
    raises DamagedCatalogError if the log is older than the file: to close it would write the log into the file.
    """
    is_checked = False

    @event.listens_for(engine, "do_connect")
    def before_opening(*_: object) -> None:
        nonlocal is_checked
        if not is_checked:
            require_newer_log(Path(str(engine.url.database)))
            is_checked = True

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.info[_KEY] = _changes(connection)

    @event.listens_for(engine, "commit")
    def ending(connection: Connection) -> None:
        if _changes(connection) != connection.info.get(_KEY):
            count = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
            connection.exec_driver_sql(f"PRAGMA user_version = {(count + 1) % _COUNTS}")


def require_newer_log(file: Path) -> None:
    """Raises DamagedCatalogError if the log beside the file is older than the file. Changes neither of them.

    The file is read first, without its log: other processes may write meanwhile.
    """
    log = file.with_name(f"{file.name}-wal")
    if not log.exists():
        return
    try:
        alone, together = _count(file, "immutable=1"), _count(file, "mode=ro")
    except sqlite3.Error:
        return  # damaged, locked or unreadable: other checks report that
    if (alone - together) % _COUNTS < _COUNTS // 2 and alone != together:
        raise DamagedCatalogError.of(
            str(file),
            f"the log beside it, {log.name}, is older than the file, as if it was copied there from an earlier state, "
            f"and would hide what was written since then. If you move {log.name} and {file.name}-shm away, the newer "
            "file counts",
        )


def _count(file: Path, how: str) -> int:
    """A connection that only reads does not write the log into the file when it is closed."""
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?{how}", uri=True, timeout=30)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _changes(connection: Connection) -> int:
    return int(getattr(connection.connection.dbapi_connection, "total_changes", 0))
