"""Detects that a SQLite file, its log or the log's index was removed or replaced while this process has it open.

SQLite would keep writing to the removed file, and that data would be lost when the last process closes it. Without the
common index (-shm), the next process makes one of its own, and both overwrite each other in the log.
"""

from __future__ import annotations

import os
from pathlib import Path
from sqlite3 import Connection as SqliteConnection
from typing import Any

from sqlalchemy import Engine, event

from app.errors import DamagedCatalogError

_Identity = tuple[int, int]  # device and inode
# beside the file, while connections are open: its write-ahead log, and the index of that with the locks. Also the keys
# of their identities in a connection's info
_BESIDE = ("-wal", "-shm")


def refuse_moved(engine: Engine) -> None:
    """From then on, every use of the engine's connections checks the file and raises DamagedCatalogError if it
    moved.
    """
    file = Path(str(engine.url.database))
    beside = {kind: file.with_name(f"{file.name}{kind}") for kind in _BESIDE}
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
        for kind, place in beside.items():
            present = _identity(place)
            if record.info.setdefault(kind, present) is None:
                record.info[kind] = present  # the first write creates the log
            elif present != record.info[kind]:
                # Permanent: closing the last connection writes the old log into the file, and a second log next to it
                # would corrupt the file.
                gone.append(place)
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
