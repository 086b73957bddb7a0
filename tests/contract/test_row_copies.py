"""Rows that grant access, hold settings or say what to process are compared with copies of the database itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, event, text

from app.catalog import SqlCatalog, check_rows, connect
from app.catalog.row_copies import _COPIED, drop, install
from app.errors import DamagedCatalogError
from app.types.access import ApiKey, Role, User
from app.types.documents import Job, Lens
from app.types.sources import SourceKind, SourceOptions
from app.types.standing import Watch

NOW = datetime(2026, 1, 1, tzinfo=UTC)
# What one flipped bit can turn a value into: `editor` has no neighbour among the roles, but a list of collections has.
ALTERED = {
    "user_account": ("role = 'admin'", "collections = '[\"s*\"]'", "password_hash = 'other'", "disabled_at = NULL"),
    "api_key": ("secret_hash = 'other'", "revoked_at = NULL", "scopes = '[\"access\"]'"),
    "lens": ("query_instruction = 'Same topid'",),
    "saved_search": ('request_json = \'{"query": "dog"}\'', "owner = 'anne'"),
    "standing_search": ("webhook = 'https://example.org/hooj'", "strength = 'strong'"),
    "recurring_source": ("address = 'https://example.org/feee'", "removes = true", "owner = 'anne'"),
    "document": ("media_type = 'text/htmm'", "given_title = 'b'", "added_by = 'anne'"),
    "job": ("kind = 'delete'", "document_id = 'other'", "priority = 'bulk'"),
}


@pytest.fixture
def filled(catalog: SqlCatalog, submitted: Callable[..., Job]) -> SqlCatalog:
    submitted("a.txt")
    catalog.access.add_user(User("anna", Role.EDITOR, NOW, ("r*",), "hash", NOW))
    catalog.access.add_key(ApiKey("k", "anna", "label", "secret", Role.READER, NOW, ("*",), None, NOW))
    catalog.save_lens(Lens("topic", "Same topic"))
    saved = catalog.searches.save_search("anna", "cats", {"query": "cat", "collection": "library"})
    catalog.standing.watch("anna", saved.id, Watch(webhook="https://example.org/hook"))
    catalog.sources.add(
        "library",
        SourceKind.FEED,
        "https://example.org/feed",
        every=timedelta(hours=1),
        removes=False,
        owner="anna",
        options=SourceOptions(),
    )
    return catalog


@pytest.mark.parametrize(("table", "change"), [(table, each) for table in ALTERED for each in ALTERED[table]])
def test_an_altered_value_is_found(filled: SqlCatalog, engine: Engine, table: str, change: str) -> None:
    """Altered below the triggers, as by a disk."""
    check_rows(engine)
    below_the_triggers(engine, f"UPDATE {table} SET {change}")
    with pytest.raises(DamagedCatalogError, match=rf"the row \[.*\] of {table} differs from its copy"):
        check_rows(engine)


@pytest.mark.parametrize("table", ["api_key", "lens", "job"])
def test_a_lost_row_is_found(filled: SqlCatalog, engine: Engine, table: str) -> None:
    below_the_triggers(engine, f"DELETE FROM {table}")
    with pytest.raises(DamagedCatalogError, match=f"1 rows of {table} are missing"):
        check_rows(engine)


def test_an_altered_copy_is_found(filled: SqlCatalog, engine: Engine) -> None:
    below_the_triggers(engine, "UPDATE row_copy SET content = '[]' WHERE table_name = 'lens'")
    with pytest.raises(DamagedCatalogError, match="of lens differs"):
        check_rows(engine)


def test_no_change_by_the_catalog_is_taken_for_damage(filled: SqlCatalog, engine: Engine) -> None:
    """Of rows that are changed, removed, and removed with others; and of every column that a statement can set."""
    for table in ALTERED:
        with engine.begin() as connection:
            connection.execute(text(f"UPDATE {table} SET {ALTERED[table][0]}"))
        check_rows(engine)
    for statement in ("UPDATE lens SET name = 'other'", "DELETE FROM user_account", "DELETE FROM collection"):
        with engine.begin() as connection:
            connection.execute(text(statement))
        check_rows(engine)
    with engine.connect() as connection:
        left = set(connection.execute(text("SELECT table_name FROM row_copy")).scalars())
    assert left == {"lens", "saved_search"}


def test_rows_that_are_removed_during_the_check_are_not_taken_for_damage(filled: SqlCatalog, engine: Engine) -> None:
    for number in range(5):
        filled.save_lens(Lens(f"lens {number}", "Same topic"))
    other = connect(engine.url.render_as_string(hide_password=False))
    removed: list[str] = []

    def remove_one(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "FROM lens" in statement or "'lens'" in statement:
            with other.begin() as connection:
                found = connection.execute(text("SELECT name FROM lens WHERE name <> 'topic' LIMIT 1")).scalar()
                connection.execute(text("DELETE FROM lens WHERE name = :name"), {"name": found})
            removed.append(str(found))

    event.listen(engine, "before_cursor_execute", remove_one)
    check_rows(engine)
    event.remove(engine, "before_cursor_execute", remove_one)
    other.dispose()
    assert removed != []


def test_rows_of_before_are_copied_once(filled: SqlCatalog, engine: Engine) -> None:
    with engine.begin() as connection:
        install(connection)
        install(connection)
    check_rows(engine)


def test_rows_of_before_are_copied_alike_in_any_time_zone(filled: SqlCatalog, engine: Engine) -> None:
    if engine.dialect.name != "postgresql":
        pytest.skip("SQLite has no time zones.")
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL timezone = 'America/New_York'"))  # as the server's or the role's default
        install(connection)
    check_rows(engine)
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL timezone = 'America/New_York'"))
        connection.execute(text("UPDATE user_account SET role = 'reader'"))
    check_rows(engine)


def below_the_triggers(engine: Engine, statement: str) -> None:
    with engine.begin() as connection:
        drop(connection)
        connection.execute(text(statement))


def test_all_these_tables_are_copied() -> None:
    assert {each.table for each in _COPIED} >= set(ALTERED)
