"""docs/how-to/back-up-and-restore.md, followed to the letter: all is lost, all comes back, on both databases and on a
Qdrant server.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gircse_program import Gircse
from patience import PATIENCE_S
from postgres_server import create_database, postgres_server
from qdrant_servers import QdrantServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

PAGE = (Path(__file__).parents[2] / "docs/how-to/back-up-and-restore.md").read_text("utf-8")
QUESTION = ("search", "Which animals can fly?", "-c", "animals", "--steps", "2", "--json")
TEXTS = {
    "owl": "Owls hunt at night. They fly without a sound.",
    "eel": "Eels live in rivers and breed in the sea.",
    "bat": "Bats are mammals with wings, and they find their way by sound.",
}


def commands(step: str) -> str:
    """The one block of commands under this heading."""
    [block] = re.findall(r"```sh\n(.*?)```", PAGE.split(f"## {step}\n")[1].split("\n## ")[0], re.DOTALL)
    return block


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    with postgres_server() as address:
        yield address


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with `gircse`, to stand first in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "gircse").write_text(
        f'#!/bin/sh\nexec {sys.executable} -P -c "from app.cli import main; main()" "$@"\n', "utf-8"
    )
    (folder / "gircse").chmod(0o755)
    return folder


def hits(gircse: Gircse) -> list[dict[str, Any]]:
    return json.loads(gircse.call(*QUESTION).stdout)["hits"]


@pytest.mark.parametrize(
    ("database", "engine"),
    [("SQLite", "embedded"), ("PostgreSQL", "embedded"), pytest.param("SQLite", "server", marks=pytest.mark.server)],
)
def test_what_was_lost_comes_back_by_the_commands_of_the_page(
    database: str,
    engine: str,
    request: pytest.FixtureRequest,
    programs: Path,
    gircse_factory: Callable[..., Gircse],
    tmp_path: Path,
) -> None:
    servers = {"before": "", "after": ""}
    if database == "PostgreSQL":
        server = request.getfixturevalue("postgres_url")
        for when in servers:
            create_database(server, f"{when}_test")
            servers[when] = f"{server}/{when}_test"

    def follow(step: str, gircse: Gircse) -> str:
        environment = {
            **gircse.environment,
            "PATH": f"{programs}:{gircse.environment['PATH']}",
            "BACKUP": str(tmp_path / "backup"),
        }
        done = subprocess.run(
            ["sh", "-eu", "-c", commands(step)],
            env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    opened = ExitStack()
    request.addfinalizer(opened.close)

    def at(catalog: str) -> dict[str, str]:
        """With a Qdrant that looks empty each time, as one that was lost."""
        found = {"GIRCSE_DATABASE_URL": catalog.replace("postgresql://", "postgresql+psycopg://")} if catalog else {}
        if engine == "server":
            server: QdrantServer = request.getfixturevalue("qdrant_server")
            found["GIRCSE_QDRANT_URL"] = opened.enter_context(server.with_own_names())
            found |= {"GIRCSE_QDRANT_API_KEY": server.api_key} if server.api_key else {}
        return found

    folder = tmp_path / "animals"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / f"{name}.txt").write_text(text, "utf-8")
    before = gircse_factory("before", settings=at(servers["before"]))
    before.call("ingest", str(folder), "-c", "animals")
    found = hits(before)
    assert len(found) == len(TEXTS)
    follow("Back up", before)

    shutil.rmtree(before.home)
    shutil.rmtree(folder)
    after = replace(before, home=tmp_path / "after", settings=at(servers["after"]))
    told = follow("Restore", after)
    assert "FAIL" not in told
    assert hits(after) == found
    assert "agree" in after.call("check").stdout
    assert after.call("documents", "list", "-c", "animals").stdout.count("ready") == len(TEXTS)
