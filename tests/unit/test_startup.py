"""A command starts fast because it imports only what it needs: these libraries take from half a second to seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from patience import PATIENCE_S

from app.cli import COMMANDS
from app.cli import app as command_line

MODEL = {"torch", "transformers", "peft"}
PAGE = {"gradio", "fastapi", "pandas"}
STORAGE = {"qdrant_client", "sqlalchemy"}

_COMMAND = "import sys; from app.cli import main; sys.argv[0] = 'gircse'; main()"
_REPORT = """
import atexit, json, os, sys
atexit.register(lambda: os.write(3, json.dumps([name for name in sys.modules if "." not in name]).encode()))
"""


def imported_by(program: str, *arguments: str, home: Path) -> set[str]:
    """The packages that are imported once a Python process has run `program`."""
    read_end, write_end = os.pipe()
    command = [sys.executable, "-P", "-c", _REPORT.replace("3", str(write_end)) + program, *arguments]
    with os.fdopen(read_end, encoding="utf-8") as answer:
        subprocess.run(
            command,
            env={**os.environ, "GIRCSE_HOME": str(home)},
            pass_fds=[write_end],
            capture_output=True,
            timeout=PATIENCE_S,
        )
        os.close(write_end)
        return set(json.loads(answer.read()))


@pytest.mark.parametrize(
    ("arguments", "needless"),
    [
        (("--help",), MODEL | PAGE | STORAGE | {"pydantic", "numpy"}),
        (("search", "--help"), MODEL | PAGE | STORAGE | {"numpy"}),
        (("jobs", "list"), MODEL | PAGE | {"qdrant_client"}),
        (("refine", ""), MODEL | PAGE | STORAGE),  # refused before the model is wanted
    ],
)
def test_command_imports_only_what_it_needs(arguments: tuple[str, ...], needless: set[str], tmp_path: Path) -> None:
    imported = imported_by(_COMMAND, *arguments, home=tmp_path)
    assert "typer" in imported
    assert not imported & needless


def test_products_of_numpy_take_one_thread() -> None:
    """Before anything brings in NumPy, which asks for the number then."""
    pytest.importorskip("threadpoolctl")
    code = (
        "import sys; from app.cli import main; sys.argv[1:] = ['--help']\n"
        "try: main()\n"
        "except SystemExit: import numpy, threadpoolctl\n"
        "print({each['num_threads'] for each in threadpoolctl.threadpool_info() if each['user_api'] == 'blas'})"
    )
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert said.stdout.splitlines()[-1] == "{1}", said.stderr


def test_the_list_of_commands_says_what_they_say_themselves() -> None:
    commands = typer.main.get_command(command_line).commands  # type: ignore[attr-defined]
    said = {name: " ".join((each.help or "").split("\n\n")[0].split()) for name, each in commands.items()}
    assert said == {name: each.help for name, each in COMMANDS.items()}
    assert {each.rich_help_panel for each in commands.values()} == {each.panel for each in COMMANDS.values()}


def test_the_pages_take_of_gradio_what_they_use(tmp_path: Path) -> None:
    imported = imported_by("import ui.app", home=tmp_path)
    assert "gradio" in imported
    assert not imported & {"mcp", "pyarrow"}  # which pandas would bring, that waits until somebody uses it


def test_pandas_is_there_once_it_is_used() -> None:
    program = """
import ui.app, sys
import gradio.caching
assert "pandas.core" not in sys.modules
assert gradio.caching.pd.DataFrame({"a": [1]}).shape == (1, 1)
"""
    subprocess.run([sys.executable, "-P", "-c", program], check=True, timeout=PATIENCE_S)


def test_gradio_writes_no_stubs_and_mcp_can_be_imported_afterwards() -> None:
    program = """
import ui.app, pathlib, sys
import gradio.component_meta, gradio.mcp
assert "mcp" not in sys.modules
made = []
pathlib.Path.write_text = lambda self, *rest, **named: made.append(self)
pathlib.Path.read_text = pathlib.Path.write_text
class Field(gradio.components.Textbox):
    EVENTS = []
assert not made, made
import mcp.server
"""
    subprocess.run([sys.executable, "-P", "-c", program], check=True, timeout=PATIENCE_S)


def test_services_come_without_the_model(tmp_path: Path) -> None:
    imported = imported_by("import app.wiring.services", home=tmp_path)
    assert imported >= STORAGE
    assert not imported & (MODEL | PAGE)


def test_the_vector_engine_starts_without_numpy(tmp_path: Path) -> None:
    """It would take a third of the time and of the memory, in every process that starts an engine."""
    imported = imported_by("import app.edge.server", home=tmp_path)
    assert "qdrant_edge" in imported
    assert not imported & {"numpy", *STORAGE, *MODEL}


def test_default_model_loads_without_transformers_and_compilers(tmp_path: Path) -> None:
    program = "from embedder import GircseEmbeddings; GircseEmbeddings().embed_query('a ferry')"
    imported = imported_by(program, home=tmp_path)
    assert "torch" in imported
    # sympy comes with torch's compiler, which some innocent calls of torch import
    assert not imported & ({"transformers", "peft", "sympy"} | PAGE | STORAGE)
