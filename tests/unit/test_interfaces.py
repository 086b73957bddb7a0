"""The shape of what programs use: REST, the tools for agents, `gircse search`. Texts may be reworded, names, types,
bounds and defaults may not. `python tests/unit/test_interfaces.py` writes the golden file anew; the commit says why."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
import typer
from typer.testing import CliRunner

from app.agents.server import mcp_server
from app.cli import app as command_line

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "interfaces.json"
TEXTS = {"description", "summary", "examples", "example", "title"}


def rest_schema() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "scripts" / "make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    make_docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_docs)
    schema: dict[str, Any] = make_docs.openapi_schema()
    return schema


def tool_schemas() -> dict[str, Any]:
    server = mcp_server(None, principal_of=lambda request: None, standing=None)  # type: ignore[arg-type, return-value]
    tools = anyio.run(server.list_tools)
    return {each.name: {"takes": each.input_schema, "answers": each.output_schema} for each in tools}


def search_options() -> dict[str, Any]:
    command = typer.main.get_command(command_line).get_command(None, "search")  # type: ignore[attr-defined, arg-type]
    facts = ("opts", "secondary_opts", "nargs", "multiple", "required", "default", "metavar")
    return {each.name: {fact: getattr(each, fact, None) for fact in facts} for each in command.params}


def shape_of(schema: object, *, names: bool = False) -> object:
    """Without texts, and with sorted lists of names; `names`: these keys are names of properties, not of the schema."""
    if isinstance(schema, dict):
        return {
            key: shape_of(value, names=key in ("properties", "schemas", "paths", "parameters"))
            for key, value in schema.items()
            if names or key not in TEXTS
        }
    if isinstance(schema, (list, tuple)):
        return [shape_of(each) for each in schema]
    return schema


def shapes() -> dict[str, Any]:
    rest = rest_schema()
    found = {"paths": rest["paths"], "schemas": rest["components"]["schemas"]}
    read = {"rest": shape_of(found), "agents": shape_of(tool_schemas(), names=True), "search": search_options()}
    shaped: dict[str, Any] = json.loads(json.dumps(read, sort_keys=True))
    return shaped


def written(shaped: dict[str, Any]) -> str:
    """A line for each path, schema, tool and option, so that a change shows in a diff."""
    parts = {"paths": shaped["rest"]["paths"], "schemas": shaped["rest"]["schemas"]}
    parts |= {name: shaped[name] for name in ("agents", "search")}
    blocks = (
        f"{json.dumps(part)}: {{\n"
        + ",\n".join(f" {json.dumps(name)}: {json.dumps(each)}" for name, each in sorted(entries.items()))
        + "\n}"
        for part, entries in parts.items()
    )
    return "{\n" + ",\n".join(blocks) + "\n}\n"


@pytest.mark.parametrize("part", ["paths", "schemas", "agents", "search"])
def test_interfaces_are_as_they_were(part: str, now: dict[str, Any]) -> None:
    before = json.loads(GOLDEN.read_text(encoding="utf-8"))[part]
    changed = {name for name in before.keys() | now[part].keys() if before.get(name) != now[part].get(name)}
    assert not changed, f"`python {Path(__file__).relative_to(ROOT)}` takes a wanted change over"


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(written(shapes()))
    return shown


def test_the_help_of_the_search_shows_every_option() -> None:
    shown = CliRunner().invoke(command_line, ["search", "--help"], env={"COLUMNS": "200"}).output
    assert all(option in shown for each in search_options().values() for option in each["opts"] if option[0] == "-")


if __name__ == "__main__":
    GOLDEN.write_text(written(shapes()), encoding="utf-8")
