"""Reads every row of the catalog as its types: a value that was altered to none that they know ends the reading."""

from __future__ import annotations

from sqlalchemy import Engine, select

from app.catalog.engine import errors_translated
from app.catalog.tables import Table

_PAGE = 2_000


def check_rows(engine: Engine) -> None:
    """Raises DamagedCatalogError. The schema is the present one."""
    with errors_translated(engine), engine.connect() as connection:
        for table in Table.metadata.sorted_tables:
            for _ in connection.execution_options(yield_per=_PAGE).execute(select(table)):
                pass
