"""Tables of the command line: what one copies from them is never cut or broken."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from app.cli import app
from app.commands import documents, jobs, terminal
from app.commands.repair import repair_differences
from app.types.search import SearchMode, SearchResult
from embedder.refinement import Refinement

IDS = [str(uuid.UUID(int=number * 10**30)) for number in range(1, 4)]
COLUMNS = ("id", "collection", "state", "title", "error")
ROWS = [(each, "reading-of-the-year", "failed", "A title of many words " * 9, "one line\nand another") for each in IDS]


@pytest.mark.parametrize("width", [20, 40, 80, 120, 400])
def test_ids_stand_whole_on_a_line_of_any_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "stdout", Console(force_terminal=True, width=width))
    terminal.print_table(COLUMNS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    for each in IDS:
        assert len([line for line in lines if line.startswith(f"{each}  reading-of-the-year  ")]) == 1
    assert max(map(len, lines)) <= max(width, 36 + 19 + 3 * 10 + 8)


def test_a_row_is_a_line_of_a_pipe_whatever_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_table(COLUMNS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(ROWS)
    for row, line in zip(ROWS, lines[1:], strict=True):
        assert line.split("  ")[0] == row[0]
        assert line.endswith("one line and another")
        assert row[3].strip() in line


def test_control_characters_of_documents_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_table(("id", "title"), [("1", "\x1b[2J[bold]x[/bold]\x07")])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[bold]x[/bold]" in out


def test_what_an_instruction_left_of_a_query_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for read_text in ("the \x1bcello", ""):
        terminal.print_refinement(Refinement("a train, the cello", "Which one?", np.ones(2), read_text=read_text))
        terminal.print_search(SearchResult("a", "Which one?", 0, "b", (), (), {}, read_text=read_text), {})
        out = capsys.readouterr().out
        assert out.count("the instruction concerns only this part of the query: the ") == (2 if read_text else 0)
        assert "refinement tokens" not in out
        assert "\x1b" not in out


@pytest.mark.parametrize(
    ("filters", "mode", "told"),
    [
        ({"paid": "\x1bno", "year": "2026"}, "sparse", "matches all filters: paid=�no, year=2026."),
        ({}, "sparse", "No passage contains these words. Find other wordings with --mode hybrid."),
        ({}, "hybrid", "Is the collection 'b' filled?"),
    ],
)
def test_an_empty_result_says_why(
    filters: dict[str, str], mode: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.print_search(SearchResult("a", "", 0, "b", (), (), {}, mode=SearchMode(mode)), filters)
    assert told in " ".join(capsys.readouterr().out.split())


# Commands that do something and report it in a sentence, run until stopped, write a file, or print JSON or CSV anyway.
WITHOUT_JSON = {
    *("up", "serve", "worker", "mcp", "embedder", "watch", "train", "eval", "ingest", "embed"),
    *("reindex", "rollback", "optimize", "backup", "restore", "export", "import"),
    *("saved delete", "saved unwatch", "history clear", "sources add", "sources run", "sources delete"),
    *("lenses save", "lenses delete", "lenses index build", "lenses index table", "lenses index delete"),
    *("judgements delete", "judgements undo-tuning", "collections delete", "collections prune"),
    *(
        "collections create",
        "saved add",
        "saved rename",
        "documents delete",
        "documents restore",
        "documents move",
        "jobs retry",
        "jobs pause",
        "jobs resume",
    ),
    *("jobs cancel", "users add", "users change", "users connect", "users disconnect", "users delete", "users remove"),
    *("keys revoke", "sessions end", "sessions end-all"),
}


def leaves(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    for name in names:
        yield from leaves(command.get_command(None, name), f"{path} {name}".strip())
    if not names:
        yield path, command


def test_every_command_with_data_prints_json() -> None:
    lacking = {
        path
        for path, command in leaves(typer.main.get_command(app))
        if not any("--json" in each.opts for each in command.params)
    }
    assert lacking == WITHOUT_JSON


def test_every_argument_and_option_is_explained() -> None:
    lacking = {
        f"{path} {each.name}"
        for path, command in leaves(typer.main.get_command(app))
        for each in command.params
        if not getattr(each, "help", "") and not getattr(each, "hidden", False)
    }
    assert lacking == set()


def test_a_password_that_nobody_types_is_an_error_with_advice() -> None:
    result = CliRunner().invoke(app, ["users", "add", "anna", "--role", "reader", "--password"], input="")
    assert result.exit_code == 1
    assert "pipe it in two equal lines" in result.output


@pytest.mark.parametrize("lists", [documents, jobs])
def test_a_list_that_ends_at_its_limit_says_so(lists: Any, toy_services: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        toy_services.add(f"Text {number}.")
    monkeypatch.setattr(lists, "open_catalog", lambda: nullcontext(toy_services.services.catalog))
    command = [lists.__name__.rpartition(".")[2], "list", "--json", "-n"]
    short, whole = (CliRunner().invoke(app, [*command, limit]) for limit in ("2", "3"))
    assert (len(short.stdout.splitlines()), len(whole.stdout.splitlines())) == (2, 3)
    assert "the first 2; there are more" in short.stderr
    assert whole.stderr == ""


def test_differences_are_json_lines_for_programs(toy_services: Any, capsys: pytest.CaptureFixture[str]) -> None:
    document = toy_services.add("The cat sleeps.")
    assert repair_differences(toy_services.services, lambda difference: False, as_json=True) == 0
    assert capsys.readouterr().out == ""
    services = toy_services.services
    services.index.delete_document(services.catalog.collection("library").active_index, document.id)
    assert repair_differences(toy_services.services, lambda difference: False, as_json=True) > 0
    (line,) = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert set(told) == {"count", "what", "index", "verdict"}
    assert (told["count"], told["verdict"]) == (1, "found")


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
    for shown in (("documents", "show", document.id), ("collections", "show", "library")):
        assert json.loads(CliRunner().invoke(app, [*shown, "--json"]).stdout)
    added = json.loads(CliRunner().invoke(app, ["keys", "add", "admin", "--label", "export", "--json"]).stdout)
    assert added.pop("secret").startswith("gk_")
    assert listed("keys") == [added]


def test_refusals_say_what_to_do_next(toy_services: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    home = toy_services.services.settings.home
    monkeypatch.setenv("GIRCSE_HOME", str(home))
    monkeypatch.setenv("GIRCSE_DATABASE_URL", f"sqlite:///{home}/catalog_test.db")
    toy_services.services.library.ensure_collection("library")

    def said(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == code, result.output
        return " ".join(result.output.replace("│", " ").split())

    assert "To delete without a question, add --yes." in said("collections", "delete", "library", code=1)
    assert said("saved", "add", "Refunds", "money back", "-c", "library").startswith("Saved 'Refunds'.")
    assert said("saved", "add", "Refunds", "a refund", "-c", "library").startswith(
        "Replaced the saved search 'Refunds'."
    )
    assert "no saved search 'Refund'. Did you mean 'Refunds'?" in said("saved", "watch", "Refund", code=1)
    assert "`gircse saved list` lists them." in said("saved", "delete", "zzz", code=1)
    wrong = said("users", "change", "anna", "--role", "boss", code=2)
    assert "'boss' is not one of" in wrong
    assert "Value error" not in wrong


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [
        (("users", "remov", "anna"), []),
        (("users", "delet", "anna"), ["delete"]),
        (("users", "lst"), ["list"]),
        (("lenses", "index", "bild"), ["build"]),
        (("doctor", "--orphan"), []),
        (("doctor", "--fxi"), ["--files"]),
        (("doctor", "--rebuil"), ["--rebuild"]),
        (("serch", "cat"), ["search", "users", "serve"]),
    ],
)
def test_only_commands_and_options_of_the_help_are_suggested(typed: tuple[str, ...], suggested: list[str]) -> None:
    result = CliRunner().invoke(app, list(typed))
    assert result.exit_code == 2
    assert re.findall(r"[\w-]+", "".join(re.findall(r"(?:mean|options:)(.*)[?)]", result.stderr))) == suggested


def test_hidden_commands_still_work() -> None:
    assert "former" not in CliRunner().invoke(app, ["users", "remove", "--help"]).output
    assert CliRunner().invoke(app, ["users", "remove", "--help"]).exit_code == 0


@pytest.mark.parametrize("command", ["ingest", "watch"])
def test_an_empty_name_does_not_mean_the_working_directory(command: str) -> None:
    result = CliRunner().invoke(app, [command, ""])
    assert result.exit_code == 2
    assert "a name is empty" in result.stderr
