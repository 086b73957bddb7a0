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
    """From then on each use of a connection of it raises DamagedCatalogError, and none is opened anew."""
    file = Path(str(engine.url.database))
    log = file.with_name(f"{file.name}-wal")
    known: list[_Identity] = []
    gone: list[Path] = []

    def require_same() -> None:
        if known and _identity(file) != known[0]:
            gone.append(file)
        if gone:
            raise _moved(engine, gone[0])

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
        present = _identity(log)
        if record.info.setdefault(_LOG, present) is None:
            record.info[_LOG] = present  # where it is made at the first write
        elif present != record.info[_LOG]:
            # For good: what the former log holds goes into the file when the last connection that has it is closed, and
            # one that began another log beside it would destroy the file.
            gone.append(log)
        require_same()


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
