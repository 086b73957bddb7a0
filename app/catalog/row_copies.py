"""Copies of rows that grant access, hold settings or say what to process, by which an altered bit is noticed.

Triggers of the database write the copies, so that no statement can forget one. Columns that change often, such as
the state of a job, are left out: ingestion writes one small row more for each document and job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, text
from sqlalchemy.orm import Mapped, mapped_column

from app.catalog.tables import Table


class RowCopyRow(Table):
    """The copy of one row. `row_key` and `content` are JSON arrays of the row's key and of its copied columns."""

    __tablename__ = "row_copy"

    table_name: Mapped[str] = mapped_column(primary_key=True)
    row_key: Mapped[str] = mapped_column(primary_key=True)
    content: Mapped[str]


@dataclass(frozen=True, slots=True)
class _Copied:
    """A table whose rows are copied. columns: the copied ones besides the key; () means all."""

    table: str
    columns: tuple[str, ...] = ()


_COPIED = (
    _Copied("user_account"),
    _Copied("api_key"),
    _Copied("user_identity"),
    _Copied("lens"),
    _Copied("lens_index", ("collection", "lens", "values_json", "edition", "revision")),
    _Copied("saved_search"),
    _Copied(
        "standing_search",
        ("owner", "collection", "strength", "feed_token", "webhook", "webhook_secret", "alert"),
    ),
    _Copied(
        "recurring_source",
        ("collection", "kind", "address", "every_s", "removes", "owner", "patterns_json", "branch", "credentials"),
    ),
    _Copied("weight_tuning"),
    _Copied(
        "document", ("collection", "uri", "given_title", "media_type", "content_hash", "given_metadata", "added_by")
    ),
    _Copied("job", ("kind", "collection", "document_id", "priority", "created_at")),
)


def install(connection: Connection) -> None:
    """Create the triggers and copy all present rows. The schema must be current."""
    drop(connection)
    _write_times_in_utc(connection)
    connection.execute(text("DELETE FROM row_copy"))
    for copied in _COPIED:
        _Sql(connection, copied).install()


def drop(connection: Connection) -> None:
    """Remove the triggers, which a migration of their tables could break."""
    for copied in _COPIED:
        _Sql(connection, copied).drop()


def altered_rows(connection: Connection) -> Iterator[str]:
    """Describes each row that differs from its copy, or lacks it. Reads the tables in one pass."""
    _write_times_in_utc(connection)
    for copied in _COPIED:
        yield from _Sql(connection, copied).altered()


def _write_times_in_utc(connection: Connection) -> None:
    """PostgreSQL writes times in the zone of the session. The triggers write them in UTC."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL timezone = 'UTC'"))


class _Sql:
    """The statements for one table. All names are our own."""

    def __init__(self, connection: Connection, copied: _Copied) -> None:
        self._connection = connection
        self._is_postgres = connection.dialect.name == "postgresql"
        self._table = copied.table
        columns = Table.metadata.tables[copied.table].columns
        self._keys = [column.name for column in columns if column.primary_key]
        self._copied = list(copied.columns) or [column.name for column in columns if not column.primary_key]
        self._trigger = f"copy_{copied.table}"

    def install(self) -> None:
        self._run(
            "INSERT INTO row_copy (table_name, row_key, content) "  # noqa: S608
            f"SELECT '{self._table}', {self._array('', self._keys)}, {self._array('', self._copied)} "
            f"FROM {self._table}"
        )
        changed = ", ".join(f'"{name}"' for name in [*self._keys, *self._copied])
        events = ("INSERT", "DELETE", f"UPDATE OF {changed}")
        if self._is_postgres:
            self._run(
                f"CREATE OR REPLACE FUNCTION {self._trigger}() RETURNS trigger LANGUAGE plpgsql SET timezone = 'UTC' "
                f"AS $$ BEGIN IF TG_OP <> 'INSERT' THEN {self._forget()}; END IF; "
                f"IF TG_OP <> 'DELETE' THEN {self._note()}; END IF; RETURN NULL; END $$"
            )
            self._run(
                f"CREATE TRIGGER {self._trigger} AFTER {' OR '.join(events)} ON {self._table} "
                f"FOR EACH ROW EXECUTE FUNCTION {self._trigger}()"
            )
            return
        for event in events:
            kind = event.split()[0]
            steps = ([] if kind == "INSERT" else [self._forget()]) + ([] if kind == "DELETE" else [self._note()])
            self._run(
                f"CREATE TRIGGER {self._trigger}_{kind.lower()} AFTER {event} ON {self._table} "
                f"BEGIN {'; '.join(steps)}; END"
            )

    def drop(self) -> None:
        if self._is_postgres:
            self._run(f"DROP FUNCTION IF EXISTS {self._trigger}() CASCADE")
            return
        for kind in ("insert", "delete", "update"):
            self._run(f"DROP TRIGGER IF EXISTS {self._trigger}_{kind}")

    def altered(self) -> Iterator[str]:
        """Compares and counts in one statement, so that rows written meanwhile are in all of its results or in none."""
        rows = self._connection.exec_driver_sql(
            f"SELECT present.row_key, 0 FROM (SELECT {self._array('', self._keys)} AS row_key, "  # noqa: S608 - own names
            f"{self._array('', self._copied)} AS content FROM {self._table}) AS present "
            f"LEFT JOIN row_copy ON table_name = '{self._table}' AND row_copy.row_key = present.row_key "
            "WHERE row_copy.content IS NULL OR row_copy.content <> present.content "
            f"UNION ALL SELECT NULL, (SELECT count(*) FROM row_copy WHERE table_name = '{self._table}') "
            f"- (SELECT count(*) FROM {self._table})"
        ).all()
        found = [str(key) for key, _ in rows if key is not None]
        yield from (f"the row {key} of {self._table} differs from its copy" for key in found)
        [missing] = [int(count) for key, count in rows if key is None]
        if missing > 0 and not found:
            yield f"{missing} rows of {self._table} are missing, of which there are copies"

    def _forget(self) -> str:
        key = self._array("OLD.", self._keys)
        return f"DELETE FROM row_copy WHERE table_name = '{self._table}' AND row_key = {key}"  # noqa: S608

    def _note(self) -> str:
        return (
            f"INSERT INTO row_copy (table_name, row_key, content) VALUES ('{self._table}', "  # noqa: S608
            f"{self._array('NEW.', self._keys)}, {self._array('NEW.', self._copied)})"
        )

    def _array(self, row: str, names: list[str]) -> str:
        values = ", ".join(f'{row}"{name}"' for name in names)
        return f"json_build_array({values})::text" if self._is_postgres else f"json_array({values})"

    def _run(self, statement: str) -> None:
        self._connection.exec_driver_sql(statement)
