"""Notices in a running process that a newer release has migrated the catalog."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sqlalchemy import Connection, Engine, Text, column, select, table
from sqlalchemy.exc import DatabaseError

from app.errors import CatalogUnavailableError

_VERSIONS = Path(__file__).parent.parent / "migrations" / "versions"
_REVISION = select(column("version_num", Text)).select_from(table("alembic_version"))


def require_known(connection: Connection) -> None:
    """Raises CatalogUnavailableError if this release does not know the schema: it may lack columns that this release
    reads, or need values that this release does not write."""
    revision = str(connection.scalar(_REVISION))
    if revision not in _known_revisions():
        raise CatalogUnavailableError(
            f"A newer release has migrated the catalog to schema {revision!r} while this process was running. Restart "
            "this process with that release."
        )


def require_known_by(engine: Engine) -> None:
    """As `require_known`, in a connection of its own. Does nothing if the schema's version cannot be read."""
    try:
        with engine.connect() as connection:
            require_known(connection)
    except DatabaseError:
        return


@cache
def _known_revisions() -> frozenset[str]:
    # From the names of the files: alembic, which knows them, would have to be imported by every process.
    return frozenset(file.name.partition("_")[0] for file in _VERSIONS.glob("[0-9]*_*.py"))
