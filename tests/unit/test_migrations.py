from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from patience import PATIENCE_S
from sqlalchemy import Engine, inspect, text

from app.catalog import SqlCatalog, connect, migrate, upgrade
from app.catalog.tables import Table
from app.errors import CatalogTooNewError, CatalogUnavailableError, DamagedCatalogError
from app.types.access import Role, Scope
from app.types.documents import JobPriority
from app.types.uris import upload_uri


def alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrate._MIGRATIONS))
    return config


HEAD = str(ScriptDirectory.from_config(alembic_config()).get_current_head())
NEXT = f"{int(HEAD) + 1:04}"

NEXT_MIGRATION = '''
"""Rebuilds the table that others refer to, as a change of a column does on SQLite."""
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "{number}", "{head}", None, None


def upgrade() -> None:
    with op.batch_alter_table("collection", recreate="always") as table:
        table.add_column(sa.Column("note", sa.Text(), nullable=True))
    {failure}
'''


@pytest.fixture
def engine_at() -> Iterator[Callable[[Path], Engine]]:
    engines: list[Engine] = []

    def open_engine(database: Path) -> Engine:
        engines.append(connect(f"sqlite:///{database}"))
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.dispose()


@pytest.fixture
def newer_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A release with one more migration; `failure` is a line of code that it ends with."""

    def install(*, failure: str = "") -> None:
        folder = tmp_path / "migrations"
        (folder / "versions").mkdir(parents=True)
        for file in migrate._MIGRATIONS.rglob("*.*"):
            if file.suffix in (".py", ".mako"):
                (folder / file.relative_to(migrate._MIGRATIONS)).write_bytes(file.read_bytes())
        source = NEXT_MIGRATION.format(number=NEXT, head=HEAD, failure=failure)
        (folder / "versions" / f"{NEXT}_note.py").write_text(source)
        monkeypatch.setattr(migrate, "_MIGRATIONS", folder)

    return install


FIRST_ROWS = """
INSERT INTO collection (name, fingerprint, dimension, document_instruction, document_steps, chunk_tokens,
    chunk_overlap, active_index, created_at) VALUES ('c', 'f', 3, '', 5, 200, 30, 'c--1', '2026-01-01 00:00:00');
INSERT INTO document (id, collection, uri, title, given_title, media_type, content_hash, byte_count, metadata,
    given_metadata, state, chunk_count, created_at, updated_at)
    VALUES ('d', 'c', 'u', '', '', 'text/plain', 'h', 1, '{}', '{}', 'queued', 0, '2026-01-01', '2026-01-01');
INSERT INTO job (id, kind, collection, document_id, state, attempts, pauses, progress, fencing_token, not_before,
    created_at) VALUES ('j', 'ingest', 'c', 'd', 'queued', 0, 0, 0, 0, '2026-01-01', '2026-01-01')
"""


def add_rows(engine: Engine) -> None:
    """A collection with a document and its job, in the columns of the first schema."""
    with engine.begin() as connection:
        for statement in FIRST_ROWS.split(";"):
            connection.exec_driver_sql(statement)


def revision(engine: Engine) -> str:
    with engine.connect() as connection:
        return str(connection.scalar(text("SELECT version_num FROM alembic_version")))


def test_an_empty_database_gets_every_table_and_needs_no_backup(
    tmp_path: Path, engine_at: Callable[[Path], Engine]
) -> None:
    engine = engine_at(tmp_path / "new" / "catalog.db")
    assert upgrade(engine) is None
    assert set(inspect(engine).get_table_names()) == {*Table.metadata.tables, "alembic_version"}
    assert upgrade(engine) is None
    assert list(tmp_path.rglob("*.backup")) == []


def test_sqlite_is_in_wal_with_foreign_keys_on(tmp_path: Path, engine_at: Callable[[Path], Engine]) -> None:
    engine = engine_at(tmp_path / "catalog.db")
    upgrade(engine)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 30_000


def test_an_older_schema_is_copied_first_and_keeps_its_rows(
    tmp_path: Path, engine_at: Callable[[Path], Engine], newer_release: Callable[..., None]
) -> None:
    engine = engine_at(tmp_path / "catalog.db")
    upgrade(engine)
    add_rows(engine)
    newer_release()
    backup = upgrade(engine)
    assert backup is not None
    assert revision(engine) == NEXT
    with engine.connect() as connection:
        assert connection.execute(text("SELECT name, note FROM collection")).all() == [("c", None)]
        # Rebuilding a table with foreign keys on would have deleted what refers to it.
        assert connection.execute(text("SELECT id FROM document")).all() == [("d",)]
    with closing(sqlite3.connect(backup)) as copy:
        assert copy.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
        assert copy.execute("SELECT name FROM collection").fetchall() == [("c",)]


def test_a_migration_that_fails_changes_nothing(
    tmp_path: Path, engine_at: Callable[[Path], Engine], newer_release: Callable[..., None]
) -> None:
    engine = engine_at(tmp_path / "catalog.db")
    upgrade(engine)
    add_rows(engine)
    newer_release(failure="raise RuntimeError('out of luck')")
    with pytest.raises(RuntimeError, match="out of luck"):
        upgrade(engine)
    assert revision(engine) == HEAD
    assert "note" not in {column["name"] for column in inspect(engine).get_columns("collection")}


def test_a_database_of_a_newer_release_is_refused_untouched(
    tmp_path: Path,
    engine_at: Callable[[Path], Engine],
    newer_release: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    this_release = migrate._MIGRATIONS
    newer_release()
    engine = engine_at(tmp_path / "catalog.db")
    upgrade(engine)
    monkeypatch.setattr(migrate, "_MIGRATIONS", this_release)
    with pytest.raises(CatalogTooNewError, match=f"'{NEXT}'.*newer"):
        upgrade(engine)
    assert revision(engine) == NEXT


def test_a_process_that_a_newer_release_overtook_says_so_instead_of_damage(
    tmp_path: Path, engine_at: Callable[[Path], Engine], newer_release: Callable[..., None]
) -> None:
    """Else an operator would restore a backup over an intact catalog, as the message about damage advises."""
    engine = engine_at(tmp_path / "catalog.db")
    upgrade(engine)
    catalog = SqlCatalog(engine)
    assert catalog.is_alive()
    newer_release()
    newer = engine_at(tmp_path / "catalog.db")
    upgrade(newer)
    assert not catalog.is_alive()
    assert catalog.collections() == []  # what both releases know still works
    with newer.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE collection RENAME COLUMN fingerprint TO model")
    with pytest.raises(CatalogUnavailableError, match=f"newer release has migrated the catalog to schema '{NEXT}'"):
        catalog.collections()
    with newer.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :known"), {"known": HEAD})
    with pytest.raises(DamagedCatalogError, match="no such column"):
        catalog.collections()


def test_many_starting_at_once_migrate_once(
    tmp_path: Path, engine_at: Callable[[Path], Engine], newer_release: Callable[..., None]
) -> None:
    engines = [engine_at(tmp_path / "catalog.db") for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(upgrade, engines)) == [None] * 4
    newer_release()
    with ThreadPoolExecutor(4) as pool:
        backups = [backup for backup in pool.map(upgrade, engines) if backup is not None]
    assert backups == list(tmp_path.glob("*.backup"))
    assert len(backups) == 1


def test_a_new_file_that_another_process_is_writing_is_waited_for(
    tmp_path: Path, engine_at: Callable[[Path], Engine]
) -> None:
    other = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None, check_same_thread=False)
    with closing(other), ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")
        upgraded = pool.submit(upgrade, engine_at(tmp_path / "catalog.db"))
        with pytest.raises(TimeoutError):
            upgraded.result(0.3)
        other.execute("CREATE TABLE note (text TEXT)")
        other.execute("COMMIT")
        assert upgraded.result(PATIENCE_S) is None


def test_rows_of_the_first_schema_are_still_readable(tmp_path: Path, engine_at: Callable[[Path], Engine]) -> None:
    engine = engine_at(tmp_path / "catalog.db")
    config = alembic_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    add_rows(engine)
    upgrade(engine)
    catalog = SqlCatalog(engine)
    assert catalog.collection("c").is_paused is False
    job = catalog.claim("test", lease=timedelta(seconds=30))
    assert job is not None
    assert (job.id, job.priority) == ("j", JobPriority.BULK)


def test_keys_of_admins_go_on_making_keys_and_others_manage_themselves(
    tmp_path: Path, engine_at: Callable[[Path], Engine]
) -> None:
    engine = engine_at(tmp_path / "catalog.db")
    config = alembic_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0007")
        for role in Role:
            connection.exec_driver_sql(
                "INSERT INTO user_account (name, role, collections, created_at) VALUES (?, ?, '[]', '2026-01-01')",
                (role.label, role.label),
            )
            connection.exec_driver_sql(
                "INSERT INTO api_key (id, user, label, secret_hash, role, collections, created_at) "
                "VALUES (?, ?, '', 'h', ?, '[\"*\"]', '2026-01-01')",
                (role.label, role.label, role.label),
            )
    upgrade(engine)
    stored = SqlCatalog(engine).access.keys()
    assert {key.user: key.scopes for key in stored} == {"reader": (), "editor": (), "admin": (Scope.ACCESS,)}


def test_uploads_of_before_get_the_uris_that_their_names_have_now(
    tmp_path: Path, engine_at: Callable[[Path], Engine]
) -> None:
    raw = [
        "report[1].txt",
        "two words.md",
        "50%.txt",
        "a#b?c.txt",
        "über.txt",
        "plain.txt",
        "has%20already.txt",
        "x%20y.txt",
    ]
    engine = engine_at(tmp_path / "catalog.db")
    config = alembic_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        add_collection, add_document, _ = FIRST_ROWS.split(";")
        connection.exec_driver_sql(add_collection)
        for number, name in enumerate([*raw, "x y.txt"]):
            row = add_document.replace("'d', 'c', 'u'", f"'{number}', 'c', ?")
            connection.exec_driver_sql(row, (f"upload://{name}",))
    upgrade(engine)
    uris = {each.id: each.uri for each in SqlCatalog(engine).documents("c")}
    kept = {name: name for name in ("has%20already.txt", "x%20y.txt")}  # a program may have encoded them
    assert uris == {
        **{str(number): upload_uri(name) for number, name in enumerate(raw) if name not in kept},
        **{str(number): f"upload://{name}" for number, name in enumerate(raw) if name in kept},
        str(len(raw)): "upload://x y.txt",  # its place is taken
    }


def test_migrations_are_numbered_in_one_line() -> None:
    numbers = [script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()]
    assert numbers[::-1] == [f"{number:04}" for number in range(1, len(numbers) + 1)]
