"""What a command prints when nobody reads it, or when it cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

GIRCSE = "from app.cli import main; main()"
MANY_LINES = """
import typer
from app import cli
app = cli.app = typer.Typer()
@app.command()
def lines():
    for number in range(100_000):
        typer.echo(number)
cli.main()
"""
NEVER_FLUSHED = "import sys; from app import cli; cli.app = lambda **_: sys.stdout.write('text'); cli.main()"
CASES = [
    pytest.param(GIRCSE, ["--help"], id="help"),
    pytest.param(GIRCSE, ["--version"], id="version"),
    pytest.param(GIRCSE, ["lenses", "list"], id="table"),
    pytest.param(GIRCSE, ["lenses", "list", "--json"], id="json"),
    pytest.param(MANY_LINES, [], id="many lines"),
    pytest.param(NEVER_FLUSHED, [], id="at exit"),
]

PROGRAMS = ["embedder.server", "embedder.training", "embedder.evaluation", "embedder.sentence_transformers"]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes of Unix")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "GIRCSE_HOME": str(tmp_path / "home")}


def run(
    code: str, arguments: list[str], environment: dict[str, str], *, stdout: int | IO[bytes]
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-P", "-c", code, *arguments]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, env=environment, check=False)


@pytest.mark.parametrize(("code", "arguments"), CASES)
def test_a_reader_that_left_ends_the_command_in_silence(
    code: str, arguments: list[str], environment: dict[str, str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = run(code, arguments, environment, stdout=writing)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("program", PROGRAMS)
def test_other_programs_do_the_same(program: str, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", program, "--help"]
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    ended = subprocess.run(closed, stderr=subprocess.PIPE, env=environment, check=False)
    assert ended.returncode == 1
    assert ended.stderr == f"{program}: cannot write the output: Bad file descriptor.\n".encode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(("code", "arguments"), CASES)
def test_a_full_disk_is_one_line(code: str, arguments: list[str], environment: dict[str, str]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = run(code, arguments, environment, stdout=full)
    assert ended.returncode == 1
    assert ended.stderr == b"gircse: cannot write the output: No space left on device.\n"


@pytest.mark.parametrize(("code", "arguments"), CASES)
def test_a_closed_output_is_one_line_and_no_file_gets_its_number(
    code: str, arguments: list[str], environment: dict[str, str]
) -> None:
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-P", "-c", code, *arguments]
    ended = subprocess.run(shell, stderr=subprocess.PIPE, env=environment, check=False)
    assert ended.returncode == 1
    assert ended.stderr == b"gircse: cannot write the output: Bad file descriptor.\n"


def test_messages_that_nobody_gets_end_nothing(environment: dict[str, str]) -> None:
    shell = ["sh", "-c", 'exec "$@" 2>&- <&-', "sh", sys.executable, "-P", "-c", GIRCSE, "lenses", "list", "--json"]
    ended = subprocess.run(shell, stdout=subprocess.PIPE, env=environment, check=False)
    assert ended.returncode == 0
    assert ended.stdout.count(b"\n") > 3


def test_streams_of_the_caller_stay_open(environment: dict[str, str]) -> None:
    code = "import os, sys; sys.stdout = os.fdopen(1, 'w'); " + GIRCSE
    ended = run(code, ["--version"], environment, stdout=subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.startswith(b"gircse ")
