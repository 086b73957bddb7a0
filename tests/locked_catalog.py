"""A catalog whose locks another process holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, text

from app.catalog import connect
from app.catalog.engine import writing


@contextmanager
def locked(engine: Engine) -> Iterator[None]:
    """Within the block, connections of their own hold the write lock of SQLite, or the table of lenses of PostgreSQL,
    as another process would."""
    other = connect(engine.url.render_as_string(hide_password=False))
    try:
        with writing(other).begin() as connection:
            is_postgres = engine.dialect.name == "postgresql"
            connection.execute(text("LOCK TABLE lens IN ACCESS EXCLUSIVE MODE" if is_postgres else "SELECT 1"))
            yield
    finally:
        other.dispose()
