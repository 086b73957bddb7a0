"""The whole catalog as rows, for backups: read from one snapshot while others write, and loaded in one transaction.

Rows hold only JSON values, independent of the database, so a backup of either database restores into the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from sqlalchemy import Connection, DateTime, Engine, Integer, MetaData, Table, insert, inspect, select, text, update

from app.catalog.engine import errors_translated
from app.catalog.migrate import locked, revision_of, upgrade_within
from app.catalog.tables import JobRow
from app.errors import ArchiveError
from app.types.documents import JobState

Row = dict[str, object]

# Not backed up: sessions, short-lived idempotency records, and the schema version and copies of rows, which the restore
# sets itself.
_LEFT_OUT = frozenset({"alembic_version", "web_session", "kept_answer", "login_attempt", "row_copy"})
# Tables with user data: a catalog with no rows in any of them may be overwritten.
_FILLED = ("collection", "lens", "user_account", "api_key")
_PAGE = 2_000


class CatalogSnapshot:
    """The catalog at one moment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.revision = revision_of(connection) or ""  # the first read fixes the snapshot
        self._metadata = _reflected(connection)

    def pages(self) -> Iterator[tuple[str, list[Row]]]:
        """Rows of each table; referenced tables come first."""
        for table in self._metadata.sorted_tables:
            rows = self._connection.execution_options(yield_per=_PAGE).execute(select(table))
            for page in rows.mappings().partitions(_PAGE):
                yield table.name, [{name: _plain(value) for name, value in row.items()} for row in page]


@contextmanager
def snapshot(engine: Engine) -> Iterator[CatalogSnapshot]:
    """Writers are not blocked."""
    with errors_translated(engine), engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with connection.begin():
            yield CatalogSnapshot(connection)


def is_filled(engine: Engine) -> bool:
    """True if the catalog holds data that a restore would overwrite."""
    with errors_translated(engine), engine.connect() as connection:
        present = set(inspect(connection).get_table_names())
        return any(connection.scalar(text(f"SELECT 1 FROM {name} LIMIT 1")) for name in present & {*_FILLED})  # noqa: S608 - our own names


def load(engine: Engine, revision: str, pages: Iterable[tuple[str, list[Row]]]) -> None:
    """Replace the whole catalog with these rows of schema `revision`, then migrate to the newest schema, all in one
    transaction. Raises CatalogTooNewError, and ArchiveError for rows that do not fit.
    """
    with errors_translated(engine), locked(engine) as connection:
        _reflected(connection, with_left_out=True).drop_all(connection)
        upgrade_within(connection, engine, revision)
        tables = _reflected(connection).tables
        for name, rows in pages:
            if name not in tables or any(set(row) != set(tables[name].columns.keys()) for row in rows):
                raise ArchiveError(f"The rows of the table {name!r} do not fit the schema {revision}.")
            if rows:
                connection.execute(insert(tables[name]), [_typed(tables[name], row) for row in rows])
        _continue_numbers(connection, tables.values())
        upgrade_within(connection, engine, "head")
        # The leases belong to workers from before the backup.
        connection.execute(
            update(JobRow)
            .where(JobRow.state == JobState.RUNNING)
            .values(state=JobState.QUEUED, attempts=0, progress=0.0)
        )
        connection.execute(update(JobRow).values(lease_owner=None, lease_until=None))


def _reflected(connection: Connection, *, with_left_out: bool = False) -> MetaData:
    metadata = MetaData()
    names = inspect(connection).get_table_names()
    metadata.reflect(connection, only=[name for name in names if with_left_out or name not in _LEFT_OUT])
    return metadata


def _plain(value: object) -> object:
    if not isinstance(value, datetime):
        return value
    return (value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)).isoformat()


def _typed(table: Table, row: Row) -> Row:
    return {name: _sql_value(table.columns[name].type, value) for name, value in row.items()}


def _sql_value(kind: object, value: object) -> object:
    if value is None or not isinstance(kind, DateTime):
        return value
    moment = datetime.fromisoformat(str(value))
    return moment if kind.timezone else moment.replace(tzinfo=None)


def _continue_numbers(connection: Connection, tables: Iterable[Table]) -> None:
    """PostgreSQL sequences do not follow inserted ids."""
    if connection.dialect.name != "postgresql":
        return
    for table in tables:
        [*keys] = table.primary_key.columns
        if len(keys) == 1 and isinstance(keys[0].type, Integer):
            name = keys[0].name
            connection.execute(
                text(
                    f"SELECT setval(pg_get_serial_sequence('{table.name}', '{name}'), max({name})) FROM {table.name} "  # noqa: S608
                    f"HAVING max({name}) IS NOT NULL"
                )
            )
