"""Reads every row of the catalog as its Python type, so that a value that does not convert raises an error, and
compares rows with their copies."""

from __future__ import annotations

from sqlalchemy import Engine, select

from app.catalog.engine import damaged, errors_translated
from app.catalog.row_copies import altered_rows
from app.catalog.tables import Table

_PAGE = 2_000


def check_rows(engine: Engine) -> None:
    """Raises DamagedCatalogError, which names the first row found. The schema must be current."""
    with errors_translated(engine), engine.connect() as connection:
        for table in Table.metadata.sorted_tables:
            for _ in connection.execution_options(yield_per=_PAGE).execute(select(table)):
                pass
    with errors_translated(engine), engine.connect() as connection:
        for altered in altered_rows(connection):
            raise damaged(engine, altered)
