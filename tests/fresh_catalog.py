"""A migrated SQLite catalog for a test: the one that is there, or a copy of one that this process migrated once."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from sqlalchemy import Engine

from app.catalog import connect, upgrade


def connect_migrated(path: Path) -> Engine:
    if not path.exists():
        path.write_bytes(_migrated())
    return connect(f"sqlite:///{path}")


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "catalog.db"
        engine = connect(f"sqlite:///{path}")
        upgrade(engine)
        engine.dispose()  # which brings all into the one file
        return path.read_bytes()
