"""Notices that a SQLite file, or its log, was removed or replaced while this process has it open.

SQLite goes on with the file that it has open, so what is written would be gone when the last process closes it.
"""

from __future__ import annotations

import os
from pathlib import Path
from sqlite3 import Connection as SqliteConnection
from typing import Any

from sqlalchemy import Engine, event

from app.errors import DamagedCatalogError

_Identity = tuple[int, int]  # device and number on it
_LOG = "log"  # of a connection's notes: the identity of its write-ahead log, which is there as long as it is open


def refuse_moved(engine: Engine) -> None:
    """From now on each use of a connection of it raises DamagedCatalogError then, and none is opened anew."""
    file = Path(str(engine.url.database))
    known: list[_Identity] = []

    def require_same() -> None:
        if known and _identity(file) != known[0]:
            raise _moved(engine, file)

    @event.listens_for(engine, "do_connect")
    def before_opening(*_: object) -> None:
        require_same()

    @event.listens_for(engine, "connect")
    def opened(_connection: SqliteConnection, _record: object) -> None:
        found = _identity(file)
        if not known and found is not None:
            known.append(found)

    @event.listens_for(engine, "checkout")
    def taken(_connection: SqliteConnection, record: Any, _proxy: object) -> None:
        require_same()
        log = file.with_name(f"{file.name}-wal")
        present = _identity(log)
        if record.info.setdefault(_LOG, present) is None:
            record.info[_LOG] = present  # where it is made at the first write
        elif present != record.info[_LOG]:
            raise _moved(engine, log)


def _identity(file: Path) -> _Identity | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _moved(engine: Engine, file: Path) -> DamagedCatalogError:
    return DamagedCatalogError.of(
        engine.url.render_as_string(hide_password=True),
        f"{file.name} was removed or replaced while this process had it open. What is there by now may be whole: start "
        "this process again, and `gircse doctor` tells",
    )
