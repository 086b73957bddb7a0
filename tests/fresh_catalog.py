"""A migrated SQLite catalog for a test: the one that is there, or a copy of one that this process migrated once."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from sqlalchemy import Engine

from app.catalog import connect, upgrade


def connect_migrated(path: Path) -> Engine:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_migrated())
    return with_known_statements(connect(f"sqlite:///{path}"))


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "catalog.db"
        engine = connect(f"sqlite:///{path}")
        upgrade(engine)
        engine.dispose()  # which brings all into the one file
        return path.read_bytes()


_known: dict[str, Engine] = {}


def with_known_statements(engine: Engine) -> Engine:
    """The engine, with the dialect and the compiled statements of the first of its kind: a test compiles only what no
    other test in its process has."""
    known = _known.get(engine.dialect.name)
    if known is None:
        with engine.connect():  # which has the dialect learn what it talks to
            _known[engine.dialect.name] = engine
    else:
        engine.dialect, engine._compiled_cache = known.dialect, known._compiled_cache
    return engine
