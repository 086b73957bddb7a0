"""Migrates the catalog's schema: one process at a time, after a backup of a SQLite file."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from app.catalog import row_copies
from app.catalog.engine import damaged, errors_translated, writing
from app.errors import CatalogTooNewError

log = logging.getLogger(__name__)

_MIGRATIONS = Path(__file__).parent.parent / "migrations"
_ADVISORY_LOCK = 0x6769726373650001  # arbitrary but unlikely elsewhere: "gircse", 1


def upgrade(engine: Engine, *, before_new: Callable[[], None] = lambda: None) -> Path | None:
    """Migrate to the newest schema. Returns the backup file, or None if none was needed. Calls `before_new`, which may
    raise, before it turns an empty database into a catalog.

    Raises CatalogTooNewError if a newer release wrote the database. A failed migration changes nothing: it is one
    transaction.
    """
    with errors_translated(engine), locked(engine) as connection:
        present = revision_of(connection)
        if present == ScriptDirectory.from_config(_config()).get_current_head():
            return None
        if present is not None:
            _require_known(engine, present)
        if present is None and inspect(connection).has_table("collection"):
            raise damaged(engine, "it has tables but no schema version")
        if present is None:
            before_new()
        backup = None
        if present is not None and engine.dialect.name == "sqlite":
            backup = _back_up(Path(str(engine.url.database)), present)
            log.info("Backed up the catalog to %s before migrating its schema %s", backup, present)
        upgrade_within(connection, engine, "head")
        return backup


def revision_of(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def upgrade_within(connection: Connection, engine: Engine, revision: str) -> None:
    """Migrate to this schema within the connection's transaction. Raises CatalogTooNewError."""
    if revision != "head":
        _require_known(engine, revision)
    config = _config()
    config.attributes["connection"] = connection
    row_copies.drop(connection)
    command.upgrade(config, revision)
    if revision == "head":
        row_copies.install(connection)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return config


def _require_known(engine: Engine, revision: str) -> None:
    scripts = ScriptDirectory.from_config(_config())
    if revision not in {script.revision for script in scripts.walk_revisions()}:
        raise CatalogTooNewError(
            f"The catalog at {engine.url.render_as_string(hide_password=True)} has schema {revision!r}, which this "
            "release does not know: a newer release wrote it. Install that release, or restore a backup of the catalog."
        )


@dataclass(frozen=True, slots=True)
class CatalogFacts:
    """A description of the database, for `gircse doctor`. `place`: the database URL without its password. `moment`: the
    server's clock, None for a file."""

    place: str
    revision: str | None
    moment: datetime | None


def describe(engine: Engine) -> CatalogFacts:
    with errors_translated(engine), engine.connect() as connection:
        revision = revision_of(connection)
        is_server = engine.dialect.name == "postgresql"
        moment = connection.scalar(text("SELECT clock_timestamp()")) if is_server else None
    return CatalogFacts(engine.url.render_as_string(hide_password=True), revision, moment)


@contextmanager
def locked(engine: Engine) -> Iterator[Connection]:
    """A transaction under a lock that no other process holds."""
    with writing(engine).connect() as connection:
        driver = connection.connection.driver_connection
        if isinstance(driver, sqlite3.Connection):
            # SQLite changes a table by copying and dropping it; with foreign keys on, that would delete referring rows.
            driver.execute("PRAGMA foreign_keys = OFF")
        try:
            with connection.begin():
                if engine.dialect.name == "postgresql":
                    connection.execute(text("SET LOCAL lock_timeout = 0"))  # another process may upgrade for minutes
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
                yield connection
        finally:
            if isinstance(driver, sqlite3.Connection):
                driver.execute("PRAGMA foreign_keys = ON")


def _back_up(database: Path, revision: str) -> Path:
    """Copies the file through SQLite, so the write-ahead log is included."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    backup = database.with_name(f"{database.name}.{revision}.{moment}.backup")
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    return backup
