"""A catalog of every earlier schema is upgraded with rows in all of its tables, and keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from postgres_server import create_database
from sqlalchemy import Boolean, Column, Connection, DateTime, Engine, MetaData, Numeric, Table, insert, select
from sqlalchemy.types import JSON, Float, Integer

from app.catalog import SqlCatalog, check_rows, connect, migrate, upgrade

SCHEMAS = sorted(each.revision for each in ScriptDirectory.from_config(migrate._config()).walk_revisions())
NOW = datetime(2026, 3, 4, 5, 6, 7, 8, tzinfo=UTC)
# Columns with a few valid values, or with JSON in a text.
VALUES: dict[tuple[str, str], Any] = {
    ("document", "state"): "ready",
    ("document", "metadata"): {"year": 1999},
    ("document", "given_metadata"): {"year": 1999},
    ("job", "kind"): "ingest",
    ("job", "state"): "done",
    ("job", "priority"): "bulk",
    ("removal", "kind"): "index",
    ("standby_index", "role"): "building",
    ("user_account", "role"): "editor",
    ("api_key", "role"): "reader",
    ("api_key", "scopes"): ["access"],
    ("lens_index", "values_json"): '["a"]',
    ("lens_index", "places_json"): '["c--1/f"]',
    ("lens", "values_json"): '["a", "b"]',
    ("recurring_source", "kind"): "feed",
    ("recurring_source", "patterns_json"): '["*.md"]',
    ("standing_search", "strength"): "fair",
    ("standing_match", "match"): "strong",
    ("standing_delivery", "channel"): "webhook",
    ("audit", "detail"): {"a": 1},
}


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "sqlite":
        engine = connect(f"sqlite:///{tmp_path / 'catalog.db'}")
    else:
        server, name = request.getfixturevalue("postgres_url"), f"schema_{next(_numbers)}_test"
        create_database(server, name)
        engine = connect(f"{server}/{name}")
    yield engine
    engine.dispose()


_numbers = count(1)


@pytest.mark.parametrize("schema", SCHEMAS[:-1])
def test_all_rows_of_an_earlier_schema_are_kept(empty: Engine, schema: str) -> None:
    with migrate.locked(empty) as connection:
        migrate.upgrade_within(connection, empty, schema)
        before = filled(connection)
    assert len(before) >= 5
    backup = upgrade(empty)
    assert (backup is not None) == (empty.dialect.name == "sqlite")
    with empty.connect() as connection:
        after = {name: rows_of(connection, name) for name in before}
    if schema < "0004":
        del before["api_key"], after["api_key"]  # of keys without users, which no release has issued
    for name, rows in before.items():
        lost = set(rows[0]) - set(after[name][0] if after[name] else rows[0])
        assert lost <= DROPPED.get(name, set()), f"columns of {name}"
        rows = [{column: row[column] for column in row if column not in lost} for row in rows]
        assert [{column: row[column] for column in rows[0]} for row in after[name]] == rows, name
    check_rows(empty)  # each value is one that this release reads, and has its copy
    assert [each.name for each in SqlCatalog(empty).collections()] == [row["name"] for row in before["collection"]]


def filled(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    """Two rows in every table, by the table's name."""
    metadata = MetaData()
    metadata.reflect(connection)
    tables = [each for each in metadata.sorted_tables if each.name != "alembic_version"]
    for table in tables:
        for number in (1, 2):
            row = {column.name: value_of(table, column, number) for column in table.columns}
            connection.execute(insert(table).values(row))
    return {table.name: rows_of(connection, table.name) for table in tables if table.name not in COPIES}


COPIES = {"row_copy"}
DROPPED = {"collection": {"building_index"}}  # reserved by the first schema, and never written


def value_of(table: Table, column: Column[Any], number: int) -> Any:
    key = (table.name, column.name)
    if key in VALUES:
        return VALUES[key]
    for reference in column.foreign_keys:
        return value_of(reference.column.table, reference.column, number)
    kind = column.type
    if isinstance(kind, Boolean):
        return number == 2
    if isinstance(kind, DateTime):
        return NOW if kind.timezone else NOW.replace(tzinfo=None)
    if isinstance(kind, JSON):
        return ["c*"]
    if isinstance(kind, Float | Numeric):
        return number / 4
    if isinstance(kind, Integer):
        return number
    if column.name.endswith("_json"):
        return "{}"
    return f"{column.name}-{number}"


def rows_of(connection: Connection, name: str) -> list[dict[str, Any]]:
    table = Table(name, MetaData(), autoload_with=connection)
    order = [column for column in table.columns if column.primary_key]
    return [dict(row) for row in connection.execute(select(table).order_by(*order)).mappings()]
