"""The file of a SQLite catalog is looked at while it is in use."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from app.catalog import check_file, connect
from app.catalog import damage as damage_module
from app.catalog.engine import writing
from app.commands.checks import check_catalog
from app.commands.findings import ask
from app.documents.blobs import FolderBlobStore
from app.errors import DamagedCatalogError
from app.settings import Settings
from app.wiring.catalog import open_catalog

OTHER_PROGRAM = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as connection:
    connection.execute("INSERT INTO note VALUES ('theirs')")
connection.close()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "large":
        monkeypatch.setattr(damage_module, "QUICK_BYTES", 0)


@pytest.mark.usefixtures("size")
def test_a_look_takes_no_lock_away_that_keeps_others_from_deleting_the_log(file: Path) -> None:
    engine = connect(f"sqlite:///{file}")
    with engine.connect() as connection:
        connection.execute(text("CREATE TABLE note (said TEXT)"))
        connection.commit()
        log = file.with_name("catalog.db-wal")
        before = log.stat().st_ino
        check_file(file)
        subprocess.run([sys.executable, "-c", OTHER_PROGRAM, file], check=True)
        assert log.stat().st_ino == before, "the other program took itself for the last one and deleted the log"
        assert connection.execute(text("SELECT said FROM note")).scalar_one() == "theirs"
    engine.dispose()


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("harm", ["header", "cut"])
def test_a_destroyed_header_and_missing_pages_are_told(file: Path, harm: str) -> None:
    engine = connect(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE note (said TEXT)"))
        connection.execute(text("INSERT INTO note VALUES (hex(randomblob(20000)))"))
    engine.dispose()
    check_file(file)
    content = file.read_bytes()
    file.write_bytes(bytes(100) + content[100:] if harm == "header" else content[: len(content) // 2])
    with pytest.raises(DamagedCatalogError, match=r"catalog\.db"):
        check_file(file)


def test_what_is_not_there_or_empty_is_no_damage(file: Path) -> None:
    check_file(file)
    assert not file.exists()
    file.touch()
    check_file(file)


WAYS_TO_GO = {
    "removed": lambda file: file.unlink(),
    "replaced by a copy": lambda file: shutil.copy(file, file.with_name("copy")).replace(file),
    "its log removed": lambda file: file.with_name("catalog.db-wal").unlink(),
    "the index of its log removed": lambda file: file.with_name("catalog.db-shm").unlink(),
}


@pytest.mark.parametrize("remove", WAYS_TO_GO.values(), ids=WAYS_TO_GO)
def test_nothing_is_written_into_a_file_that_is_gone(file: Path, remove: Callable[[Path], object]) -> None:
    engine = connect(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE note (said TEXT)"))
    with engine.begin() as connection, engine.begin() as other:  # two of them
        assert connection.execute(text("SELECT count(*) FROM note")).scalar() == 0
        assert other.execute(text("SELECT count(*) FROM note")).scalar() == 0
        connection.execute(text("INSERT INTO note VALUES ('ours')"))
    remove(file)
    for _ in range(2):
        with pytest.raises(DamagedCatalogError, match=r"removed or replaced while"), engine.begin():
            pass
    engine.dispose()
    with pytest.raises(DamagedCatalogError, match=r"removed or replaced while"), engine.begin():
        pass  # which would begin a new file, or a second log
    assert file.exists() is (remove is not WAYS_TO_GO["removed"])
    anew = connect(f"sqlite:///{file}")  # as after a start
    with anew.begin() as connection:
        if remove is WAYS_TO_GO["its log removed"]:  # which was put into the file when it was closed
            assert connection.execute(text("SELECT count(*) FROM note")).scalar() == 1
        connection.execute(text("CREATE TABLE IF NOT EXISTS note (said TEXT)"))
    anew.dispose()


def test_others_that_close_the_file_and_empty_its_log_change_nothing(file: Path) -> None:
    engine = connect(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE note (said TEXT)"))
    for _ in range(3):
        subprocess.run([sys.executable, "-c", OTHER_PROGRAM, file], check=True)
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO note VALUES ('ours')"))
            connection.execute(text("PRAGMA user_version = 7"))
        with engine.connect() as connection:
            connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM note")).scalar() == 6
    engine.dispose()


def test_an_empty_catalog_beside_stored_files_is_one_that_was_lost(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    with open_catalog(settings):
        FolderBlobStore(tmp_path / "files").put(b"a document")
    with open_catalog(settings):  # which has no documents yet, and is there
        pass
    (tmp_path / "catalog.db").unlink()
    for _ in range(2):
        with (
            pytest.raises(DamagedCatalogError, match=r"empty or gone, though files.*gircse restore FILE --force"),
            open_catalog(settings),
        ):
            pass
    assert "gircse restore" in ask(check_catalog, settings).detail
    (tmp_path / "files").rename(tmp_path / "away")
    with open_catalog(settings) as catalog:
        assert catalog.collections() == []


def test_a_log_of_an_earlier_state_is_refused_and_changes_nothing(file: Path, tmp_path: Path) -> None:
    log, kept = file.with_name("catalog.db-wal"), tmp_path / "earlier-wal"
    for number in range(30):
        engine = connect(f"sqlite:///{file}")
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE IF NOT EXISTS note (said TEXT)"))
            connection.execute(text("INSERT INTO note VALUES (:said)"), {"said": f"{number} {'x' * 900}"})
        if number == 3:
            shutil.copy(log, kept)
        check_file(file)  # beside its own log
        engine.dispose()
        check_file(file)
    before = file.read_bytes()
    shutil.copy(kept, log)
    for _ in range(2):
        with pytest.raises(DamagedCatalogError, match=r"catalog\.db-wal, is older than the file"):
            check_file(file)
        with pytest.raises(DamagedCatalogError, match="is older than the file"), connect(f"sqlite:///{file}").begin():
            pass  # as by a command that does not check the file first
    assert (file.read_bytes(), log.read_bytes()) == (before, kept.read_bytes())
    for beside in ("catalog.db-wal", "catalog.db-shm"):
        file.with_name(beside).unlink(missing_ok=True)  # as the message says
    check_file(file)
    engine = connect(f"sqlite:///{file}")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM note")).scalar() == 30
    engine.dispose()


def test_a_transaction_that_changes_nothing_writes_nothing(file: Path) -> None:
    engine = connect(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE note (said TEXT)"))
        connection.execute(text("INSERT INTO note VALUES ('ours')"))
    log = file.with_name("catalog.db-wal")
    size = log.stat().st_size
    for _ in range(3):
        with writing(engine).begin() as connection:
            connection.execute(text("UPDATE note SET said = 'theirs' WHERE said = 'nothing'"))
    assert log.stat().st_size == size
    engine.dispose()
