"""What a search does where nobody says otherwise is one thing, whichever interface asks, and has one source."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from app.api.evaluations import NewEvaluation
from app.api.search_schemas import RefineQuestion, SearchQuestion
from app.cli import app as command_line
from app.commands.chosen_collection import chosen_collection
from app.types.defaults import DEFAULT_COLLECTION
from app.types.evaluation import EvaluationPlan
from app.types.search import DEFAULT_MODE, SearchMode, SearchRequest
from embedder.checkpoint import DEFAULT_MODEL, find_checkpoint
from embedder.integrations.retriever import GircseRetriever
from embedder.model.contract import Contract
from embedder.refinement_steps import QUERY_STEPS

ROOT = Path(__file__).parents[2]
SOURCES = {"app/types/search.py", "embedder/integrations/retriever.py"}  # the embedder may import nothing of app
# What stands for a mode, and where it is no default: how it is called, and what to do in it.
NAMED = re.compile(r"""(?:value|default|mode)\s*[=:]+\s*\[?["'](?:hybrid|dense)["']|= \[?SearchMode\.\w+\]?,?$""")


def option(path: str, name: str) -> Any:
    command = typer.main.get_command(command_line)
    for part in path.split():
        command = command.commands[part]  # type: ignore[attr-defined]
    [found] = [each for each in command.params if each.name == name]
    return found.default


def test_every_interface_searches_in_the_same_mode_by_default() -> None:
    assert DEFAULT_MODE is SearchMode.HYBRID
    evaluated = {each.name: each.default for each in fields(EvaluationPlan)}["modes"]
    assert {
        "request": SearchRequest("x", "y").mode,
        "REST": SearchQuestion(query="x").mode,
        "command": option("search", "mode"),
        "LangChain": SearchMode(GircseRetriever.model_fields["mode"].default),
    } == dict.fromkeys(("request", "REST", "command", "LangChain"), DEFAULT_MODE)
    assert evaluated == (DEFAULT_MODE,)
    assert NewEvaluation().modes == option("judgements evaluate", "modes") == [DEFAULT_MODE]


@pytest.mark.parametrize("folder", ["app", "ui", "embedder"])
def test_no_interface_writes_a_default_mode_of_its_own(folder: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (ROOT / folder).rglob("*.py")
        if str(path.relative_to(ROOT)) not in SOURCES
        for line in path.read_text(encoding="utf-8").splitlines()
        if NAMED.search(line)
    }
    assert not found


def test_a_query_takes_the_steps_that_the_quality_curve_says() -> None:
    """The curve: docs/evaluation/report.md, More steps. Nothing there is gained by more than five."""
    assert 1 <= QUERY_STEPS <= 5
    assert {each.name: each.default for each in fields(Contract)}["default_query_steps"] == QUERY_STEPS
    assert 1 <= find_checkpoint(DEFAULT_MODEL).contract.default_query_steps <= QUERY_STEPS
    assert {each.name: each.default for each in fields(EvaluationPlan)}["steps"] == (QUERY_STEPS,)
    assert NewEvaluation().steps == option("judgements evaluate", "steps") == [QUERY_STEPS]


def test_nobody_but_the_model_says_how_many_steps_a_query_takes() -> None:
    assert SearchRequest("x", "y").steps is None
    assert SearchQuestion(query="x").steps is None
    assert RefineQuestion(text="x").steps is None
    assert GircseRetriever.model_fields["steps"].default is None
    assert [option(command, "steps") for command in ("search", "refine", "embed")] == [None] * 3


def test_more_steps_than_the_default_gain_nothing_that_was_measured() -> None:
    """Of the ranking measures of the report: the score at 20 steps is not above that at 5 where an instruction is
    given."""
    report = (ROOT / "docs" / "evaluation" / "report.md").read_text(encoding="utf-8")
    table = report.split("### More steps, both sides alike\n")[1].split("\n###")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    columns = rows[0]
    assert f"K={QUERY_STEPS}" in columns
    instructed = [dict(zip(columns, row, strict=True)) for row in rows[2:] if row[2] != "none"]
    gains = [float(row["K=20"].split()[0]) - float(row[f"K={QUERY_STEPS}"].split()[0]) for row in instructed]
    assert gains
    assert sum(gains) / len(gains) <= 0


class Several:
    def uncounted_collections(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name) for name in ("letters", DEFAULT_COLLECTION)]


def test_the_collection_is_the_same_everywhere() -> None:
    assert SearchQuestion(query="x").collection == DEFAULT_COLLECTION
    assert option("search", "collection") is None
    assert chosen_collection(None, Several()) == DEFAULT_COLLECTION  # type: ignore[arg-type]
    assert GircseRetriever.model_fields["collection"].default == DEFAULT_COLLECTION
    assert NewEvaluation().collection == DEFAULT_COLLECTION
