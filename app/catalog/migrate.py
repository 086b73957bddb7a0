"""Brings the catalog's schema up to date: one process at a time, and a backup of a SQLite file first."""

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

from app.catalog.engine import damaged, errors_translated, writing
from app.errors import CatalogTooNewError

log = logging.getLogger(__name__)

_MIGRATIONS = Path(__file__).parent.parent / "migrations"
_ADVISORY_LOCK = 0x6769726373650001  # any number that no other program takes: "gircse", 1


def upgrade(engine: Engine, *, before_new: Callable[[], None] = lambda: None) -> Path | None:
    """Migrates to the newest schema. Returns the backup that was made, None when none was needed. `before_new` is
    called before an empty database becomes a new catalog, and may raise.

    Raises CatalogTooNewError when the database was written by a newer release. A migration that fails changes
    nothing: all of it is one transaction.
    """
    with errors_translated(engine), locked(engine) as connection:
        present = revision_of(connection)
        if present == ScriptDirectory.from_config(_config()).get_current_head():
            return None
        if present is not None:
            _require_known(engine, present)
        if present is None and inspect(connection).has_table("collection"):
            raise damaged(engine, "it has tables, and none that tells their schema")
        if present is None:
            before_new()
        backup = None
        if present is not None and engine.dialect.name == "sqlite":
            backup = _back_up(Path(str(engine.url.database)), present)
            log.info("The catalog was copied to %s before its schema %s is migrated", backup, present)
        upgrade_within(connection, engine, "head")
        return backup


def revision_of(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def upgrade_within(connection: Connection, engine: Engine, revision: str) -> None:
    """To this schema, in the transaction of the connection. Raises CatalogTooNewError."""
    if revision != "head":
        _require_known(engine, revision)
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return config


def _require_known(engine: Engine, revision: str) -> None:
    scripts = ScriptDirectory.from_config(_config())
    if revision not in {script.revision for script in scripts.walk_revisions()}:
        raise CatalogTooNewError(
            f"The catalog at {engine.url.render_as_string(hide_password=True)} has schema {revision!r}, which this "
            "release does not know: a newer one wrote it. Install that release, or restore a backup of the catalog."
        )


@dataclass(frozen=True, slots=True)
class CatalogFacts:
    """`place` names the database without its password; `moment` is its server's clock, None where it is a file."""

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
    """A transaction that no other process can have at the same time."""
    with writing(engine).connect() as connection:
        driver = connection.connection.driver_connection
        if isinstance(driver, sqlite3.Connection):
            # Changing a table copies and drops it on SQLite: with foreign keys on, that would delete what refers to it.
            driver.execute("PRAGMA foreign_keys = OFF")
        try:
            with connection.begin():
                if engine.dialect.name == "postgresql":
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
                yield connection
        finally:
            if isinstance(driver, sqlite3.Connection):
                driver.execute("PRAGMA foreign_keys = ON")


def _back_up(database: Path, revision: str) -> Path:
    """Copies the file through SQLite itself, which includes what is still in the write-ahead log."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    backup = database.with_name(f"{database.name}.{revision}.{moment}.backup")
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    return backup
