"""Distinguishes a damaged database from an unreachable or full one, and checks SQLite files for damage."""

from __future__ import annotations

import json
import sqlite3
import traceback
from contextlib import closing
from pathlib import Path

from app.catalog.write_count import require_newer_log
from app.errors import DamagedCatalogError

QUICK_BYTES = 300_000_000  # a full check takes 0.13 s per 100 MB in memory; larger files wait for `gircse doctor`
_SQLITE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_OF_DISK = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
# PostgreSQL: corrupted data or index, missing table, missing column.
_SQL_STATES = ("XX001", "XX002", "42P01", "42703")
_MISSING = ("no such table", "no such column")
_ALTERED = "Could not decode to UTF-8"


_SCHEMA = "SELECT 'ok' FROM (SELECT count(*) FROM sqlite_schema)"
_LOST_ROWS = """SELECT coalesce(
    (SELECT 'row ' || rowid || ' of ' || "table" || ' refers to a missing row of ' || parent
     FROM pragma_foreign_key_check LIMIT 1), 'ok')"""


def is_damage(error: BaseException | None) -> bool:
    """True if this driver error means a damaged database."""
    if isinstance(error, sqlite3.Error):
        # The low byte is the error code, the rest its extension.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return code in _SQLITE_CODES or str(error).startswith((*_MISSING, _ALTERED))
    return getattr(error, "sqlstate", None) in _SQL_STATES


def is_of_schema(error: BaseException | None) -> bool:
    """True if this driver error means a missing table or column, as after a migration by a newer release."""
    if isinstance(error, sqlite3.Error):
        return str(error).startswith(_MISSING)
    return getattr(error, "sqlstate", None) in _SQL_STATES[2:]


def is_altered_value(error: Exception) -> bool:
    """True if this error arose while decoding a column value that the catalog never writes."""
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return True
    *_, innermost = traceback.extract_tb(error.__traceback__)
    return "sqlalchemy" in innermost.filename  # SQLAlchemy converts column values to Python types


def is_full(error: BaseException | None) -> bool:
    """True if this driver error means that the disk, or the database's share of it, is full."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    return getattr(error, "sqlstate", None) == "53100"


def is_of_disk(error: BaseException | None) -> bool:
    """True if SQLite's file system failed or is read-only, also one that the kernel made read-only after an error."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _OF_DISK


def check_file(file: Path, *, is_thorough: bool = False) -> None:
    """Raises DamagedCatalogError, also for a log that is older than the file. A thorough check also compares indexes
    with rows and rows with the rows they refer to. Otherwise only the header and page count of a large file are
    checked. A missing or empty file is not an error.

    Only SQLite may open the file. When a process closes any file handle, it loses all its locks on that file, including
    those of other SQLite connections; the next program that closes the database then deletes the log under them
    (sqlite.org/howtocorrupt.html, 2.2).
    """
    try:
        size = file.stat().st_size
    except FileNotFoundError:
        return
    if not size:
        return
    require_newer_log(file)  # before any connection that would write the log into the file
    if is_thorough:
        _check(file, "PRAGMA integrity_check(1)")
        _check(file, _LOST_ROWS)
    else:
        # Reading the schema fails if the header is invalid or claims more pages than exist.
        _check(file, "PRAGMA quick_check(1)" if size <= QUICK_BYTES else _SCHEMA)


def _check(file: Path, query: str) -> None:
    try:
        with closing(sqlite3.connect(file, timeout=30)) as connection:
            results = [row[0] for row in connection.execute(query)]
    except sqlite3.Error as error:
        if not is_damage(error):
            return  # locked or unreadable: opening it reports that
        results = [str(error)]
    if results != ["ok"]:
        raise DamagedCatalogError.of(str(file), " ".join(results).replace("\n", " "))
