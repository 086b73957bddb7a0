"""Ctrl-C and SIGTERM at any moment of a command."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from patience import wait_until
from typer.testing import CliRunner

from app import cli
from app.commands import archive

ENDS = [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]


@pytest.fixture
def handled() -> Iterator[None]:
    before = {each: signal.signal(each, cli.end_at_signal) for each, _ in ENDS}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize(("number", "end"), ENDS)
def test_an_import_ends_before_the_command_does(number: signal.Signals, end: type[BaseException]) -> None:
    """An exception within importlib may leave its lock taken, and every later import would wait for ever."""
    importing = compile("signal.raise_signal(number); has_ended = True", "<frozen importlib._bootstrap>", "exec")
    names: dict[str, Any] = {"signal": signal, "number": number}

    def import_and_wait() -> None:
        exec(importing, names)
        wait_until(lambda: False)

    with pytest.raises(end):
        import_and_wait()
    assert names["has_ended"]


class Deleted:
    """Sends a signal while it is deleted."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize(("number", "end"), ENDS)
def test_no_signal_is_lost_in_a_deletion(number: signal.Signals, end: type[BaseException]) -> None:
    """Python ignores exceptions there."""

    def delete_and_wait() -> None:
        Deleted(number)
        wait_until(lambda: False)

    with pytest.raises(end):
        delete_and_wait()


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_an_interrupted_command_says_what_remains(
    stop: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted() -> None:
        raise stop

    monkeypatch.setattr(archive, "open_services", interrupted)
    result = CliRunner().invoke(cli.app, ["export", "letters", str(tmp_path / "letters.tar.zst")])
    assert result.exit_code == code
    assert "interrupted. No archive was written. Run the command again." in result.output


def test_every_long_command_says_what_an_interruption_leaves() -> None:
    commands = typer.main.get_command(cli.app).list_commands(None)  # type: ignore[attr-defined]
    told = {name for name in commands if cli.COMMANDS[name].interrupted}
    assert told >= {
        "ingest",
        "watch",
        "up",
        "train",
        "eval",
        "reindex",
        "backup",
        "restore",
        "export",
        "import",
        "doctor",
        "check",
    }
