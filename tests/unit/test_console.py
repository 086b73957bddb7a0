"""Tables of the command line: what one copies from them is never cut or broken."""

from __future__ import annotations

import json
import uuid
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from app.cli import app
from app.commands import console
from app.types.search import SearchResult
from embedder.refinement import Refinement

IDS = [str(uuid.UUID(int=number * 10**30)) for number in range(1, 4)]
COLUMNS = ("id", "collection", "state", "title", "error")
ROWS = [(each, "reading-of-the-year", "failed", "A title of many words " * 9, "one line\nand another") for each in IDS]


@pytest.mark.parametrize("width", [20, 40, 80, 120, 400])
def test_ids_stand_whole_on_a_line_of_any_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "stdout", Console(force_terminal=True, width=width))
    console.print_table(COLUMNS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    for each in IDS:
        assert len([line for line in lines if line.startswith(f"{each}  reading-of-the-year  ")]) == 1
    assert max(map(len, lines)) <= max(width, 36 + 19 + 3 * 10 + 8)


def test_a_row_is_a_line_of_a_pipe_whatever_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_table(COLUMNS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(ROWS)
    for row, line in zip(ROWS, lines[1:], strict=True):
        assert line.split("  ")[0] == row[0]
        assert line.endswith("one line and another")
        assert row[3].strip() in line


def test_control_characters_of_documents_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_table(("id", "title"), [("1", "\x1b[2J[bold]x[/bold]\x07")])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[bold]x[/bold]" in out


def test_what_an_instruction_left_of_a_query_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for read_text in ("the \x1bcello", ""):
        console.print_refinement(Refinement("a train, the cello", "Which one?", np.ones(2), read_text=read_text))
        console.print_search(SearchResult("a", "Which one?", 0, "b", (), (), {}, read_text=read_text))
        out = capsys.readouterr().out
        assert out.count("the instruction concerns only this part of the query: the ") == (2 if read_text else 0)
        assert "refinement tokens" not in out
        assert "\x1b" not in out


def test_lists_are_json_lines_for_programs(toy_services: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    home = toy_services.services.settings.home
    monkeypatch.setenv("GIRCSE_HOME", str(home))
    monkeypatch.setenv("GIRCSE_DATABASE_URL", f"sqlite:///{home}/catalog_test.db")
    document = toy_services.add("The cat sleeps.")

    def listed(*arguments: str) -> list[Any]:
        result = CliRunner().invoke(app, [*arguments, "list", "--json"])
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    assert [each["id"] for each in listed("documents")] == [document.id]
    assert [each["document_id"] for each in listed("jobs")] == [document.id]
    assert [each["name"] for each in listed("collections")] == ["library"]
    [admin] = listed("users")
    assert (admin["name"], "password_hash" in admin) == ("admin", False)
    assert listed("keys") == []
