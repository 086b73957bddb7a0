"""Reads every row of the catalog as its Python type, so that a value that does not convert raises an error."""

from __future__ import annotations

from sqlalchemy import Engine, select

from app.catalog.engine import errors_translated
from app.catalog.tables import Table

_PAGE = 2_000


def check_rows(engine: Engine) -> None:
    """Raises DamagedCatalogError. The schema must be current."""
    with errors_translated(engine), engine.connect() as connection:
        for table in Table.metadata.sorted_tables:
            for _ in connection.execution_options(yield_per=_PAGE).execute(select(table)):
                pass
