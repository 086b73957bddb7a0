"""Detects that a SQLite file or its log was removed or replaced while this process has it open.

SQLite would keep writing to the removed file, and that data would be lost when the last process closes it.
"""

from __future__ import annotations

import os
from pathlib import Path
from sqlite3 import Connection as SqliteConnection
from typing import Any

from sqlalchemy import Engine, event

from app.errors import DamagedCatalogError

_Identity = tuple[int, int]  # device and inode
# key in a connection's info: the identity of its write-ahead log, which exists while the connection is open
_LOG = "log"


def refuse_moved(engine: Engine) -> None:
    """From then on, every use of the engine's connections checks the file and raises DamagedCatalogError if it
    moved.
    """
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
        present = _identity(file)
        if not known and present is not None:
            known.append(present)

    @event.listens_for(engine, "checkout")
    def taken(_connection: SqliteConnection, record: Any, _proxy: object) -> None:
        present = _identity(log)
        if record.info.setdefault(_LOG, present) is None:
            record.info[_LOG] = present  # the first write creates the log
        elif present != record.info[_LOG]:
            # Permanent: closing the last connection writes the old log into the file, and a second log next to it would
            # corrupt the file.
            gone.append(log)
        require_same()


def _identity(file: Path) -> _Identity | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _moved(engine: Engine, file: Path) -> DamagedCatalogError:
    return DamagedCatalogError.of(
        engine.url.render_as_string(hide_password=True),
        f"{file.name} was removed or replaced while this process had it open. The new file may be intact: restart "
        "this process and run `gircse doctor`",
    )
