"""A PostgreSQL database that cannot hold every text is refused by each command, in one line that says what to make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import forget_settings, run_command
from postgres_server import create_database
from sqlalchemy import Engine, select, text

from app.catalog import connect, upgrade
from app.errors import InputError

OTHERS = ["SQL_ASCII", "LATIN1", "WIN1252", "EUC_JP"]
NEEDED = r"gircse: The database at \S+ has the encoding SQL_ASCII; the catalog needs UTF8.*createdb .*--encoding=UTF8"


@pytest.fixture(scope="module")
def ascii_database(postgres_url: str) -> str:
    create_database(postgres_url, "ascii_test", encoding="SQL_ASCII")
    return f"{postgres_url}/ascii_test"


@pytest.fixture
def ascii_home(ascii_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of a command whose catalog is `ascii_database`."""
    forget_settings(monkeypatch)
    monkeypatch.setenv("GIRCSE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIRCSE_DATABASE_URL", ascii_database)
    return tmp_path / "home"


@pytest.fixture
def latin_client(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """A database of UTF8, opened where the environment asks for texts in LATIN1."""
    create_database(postgres_url, "latin_client_test")
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    engine = connect(f"{postgres_url}/latin_client_test")
    yield engine
    engine.dispose()


@pytest.mark.parametrize("encoding", OTHERS)
def test_every_other_encoding_is_refused_at_each_connection(postgres_url: str, encoding: str) -> None:
    create_database(postgres_url, f"{encoding.lower()}_refused_test", encoding=encoding)
    engine = connect(f"{postgres_url}/{encoding.lower()}_refused_test")
    for _ in range(2):
        with pytest.raises(InputError, match=f"has the encoding {encoding}; the catalog needs UTF8"):
            upgrade(engine)


def test_the_advised_command_makes_a_database_that_is_taken(postgres_url: str) -> None:
    create_database(postgres_url, "advised_test", encoding="UTF8", locale="C.UTF-8")
    engine = connect(f"{postgres_url}/advised_test")
    upgrade(engine)
    engine.dispose()


def test_the_encoding_that_the_environment_asks_for_changes_no_text(latin_client: Engine) -> None:
    with latin_client.connect() as connection:
        assert connection.scalar(select(text("'Łódź 東京'"))) == "Łódź 東京"


@pytest.mark.parametrize(
    "command",
    [
        ["serve", "--port", "0"],
        ["up", "--port", "0"],
        ["worker"],
        ["ingest", __file__],
        ["search", "a question"],
        ["collections", "list"],
        ["jobs", "list"],
        ["check"],
        ["backup", "backup.tar"],
    ],
    ids=lambda command: command[0],
)
def test_every_command_says_so_in_one_line(ascii_home: Path, command: list[str]) -> None:
    [line] = run_command(*command, code=1).stderr.splitlines()
    assert re.match(NEEDED, line), line


def test_doctor_names_it(ascii_home: Path) -> None:
    output = " ".join(run_command("doctor", code=1).stdout.split())
    assert "FAIL catalog" in output
    assert "SQL_ASCII; the catalog needs UTF8" in output
    assert "ok index" in output, "doctor looks at the other parts, too"
