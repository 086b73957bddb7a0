"""The file of a SQLite catalog is looked at while it is in use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from app.catalog import check_file, connect
from app.catalog import damage as damage_module
from app.errors import DamagedCatalogError

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
