"""The table of clients of others in the docs: complete, without a failure, and made by the scripts beside it."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(
    r"\| \[(?P<client>[^]]+)\]\(\.\./scripts/clients/(?P<script>\S+)\) \| (?P<version>\S+) \| (.+) \| (.+) \|"
)
CLIENTS = {
    *(
        "openai",
        "openai (npm)",
        "langchain-openai",
        "langchain-cohere",
        "@langchain/openai (npm)",
        "@langchain/cohere (npm)",
    ),
    *("llama-index-core", "haystack-ai", "cohere", "httpx", "huggingface_hub", "mcp"),
    *("langchain-huggingface", "gircse-embedder"),
    *("@modelcontextprotocol/inspector (npm)", "openapi-python-client", "openapi-typescript (npm)"),
    *("llama-index-embeddings-text-embeddings-inference", "llama-index-postprocessor-tei-rerank"),
}


@pytest.fixture(scope="module")
def matrix() -> Any:
    folder = str(ROOT / "scripts")
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("client_matrix", ROOT / "scripts" / "client_matrix.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


@pytest.fixture(scope="module")
def lines(matrix: Any) -> list[str]:
    head, _, table = matrix.PAGE.read_text("utf-8").partition("|---|---|---|---|\n")
    assert head + "|---|---|---|---|\n" == matrix.HEAD, "the page was not made by this script: make client-matrix"
    return table.splitlines()


def test_every_script_has_rows_and_every_row_a_script(matrix: Any, lines: list[str]) -> None:
    rows = [ROW.fullmatch(line) for line in lines]
    assert None not in rows, lines[rows.index(None)]
    assert {row["script"] for row in rows if row} == {path.name for path in matrix.scripts()}
    assert {row["client"] for row in rows if row} == CLIENTS


def test_every_call_in_the_table_is_made_by_its_script(matrix: Any, lines: list[str]) -> None:
    for line in lines:
        row = ROW.fullmatch(line)
        assert row is not None
        assert json.dumps(row[4]) in (matrix.CLIENTS / row["script"]).read_text("utf-8"), line


def test_no_call_failed(lines: list[str]) -> None:
    assert [line for line in lines if "**failed**" in line] == []


def run(
    matrix: Any,
    text: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    install: Callable[..., Path] = lambda *_: Path(sys.executable).parent,
) -> list[Any]:
    """Runs a script with the programs of this environment in place of a new one."""
    clients = folder / "clients"
    clients.mkdir(parents=True)
    for name in matrix.MODULES:
        (clients / name).write_text((matrix.CLIENTS / name).read_text("utf-8"), "utf-8")
    (clients / "tried.py").write_text(text, "utf-8")
    monkeypatch.setattr(matrix, "CLIENTS", clients)
    monkeypatch.setattr(matrix, "_install", install)
    work = folder / "work"
    work.mkdir()
    servers = {"APPLICATION": "http://a", "EMBEDDER": "http://b", "EMBEDDER_KEY": "key"}
    rows: list[Any] = matrix.run_script(clients / "tried.py", servers, work)
    return rows


def test_a_failing_call_is_a_row_with_its_error(matrix: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = '{"one": lambda: checked_ranking([0, 1, 2]), "two": lambda: checked_vectors([[1.0]], 1)}'
    text = f"from reporting import *\nrun_calls('pytest', {calls})\n"
    good, bad = run(matrix, text, tmp_path, monkeypatch)
    assert (good.failed, good.version) == (False, pytest.__version__)
    assert str(bad).startswith(
        f"| [pytest](../scripts/clients/tried.py) | {pytest.__version__} | two | **failed**: Asser"
    )


def test_a_script_that_ends_early_is_a_failure(matrix: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = run(matrix, "import a_package_that_is_missing\n", tmp_path, monkeypatch)
    assert row.failed
    assert "a_package_that_is_missing" in row.result


def test_a_timeout_says_in_which_part_and_keeps_the_rows_before_it(
    matrix: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(command: Sequence[str | Path], *_: Any) -> None:
        first = {"client": "pytest", "version": "9", "call": "one", "result": "good"}
        raise subprocess.TimeoutExpired(command, 600, output=json.dumps(first).encode(), stderr=b"x" * 5000)

    def install(*_: Any) -> None:
        hang(["uv", *["package"] * 1000])

    (late,) = run(matrix, "", tmp_path / "first", monkeypatch, install=install)
    assert (late.call, late.failed) == ("install", True)
    monkeypatch.setattr(matrix, "_run", hang)
    one, late = run(matrix, "", tmp_path / "second", monkeypatch)
    assert (one.call, one.failed, late.call, late.failed) == ("one", False, "run", True)
    assert late.result.endswith("xx No end after 600 s.")
    assert len(late.result) <= 300


def test_the_rows_of_scripts_that_ran_replace_theirs(matrix: Any) -> None:
    first, second, third = (matrix.Row(f"{name}.py", name, "1", "call", "good") for name in ("a", "b", "c"))
    new = [matrix.Row("b.py", "b", "2", call, "good") for call in ("two", "one")]
    page = matrix.page_of([str(first), str(second), str(third)], new)
    assert page == matrix.HEAD + "".join(f"{row}\n" for row in (first, *new, third))


def test_packages_are_read_from_the_header_of_a_script(matrix: Any) -> None:
    assert matrix._inline_packages(matrix.CLIENTS / "gircse_langchain_python.py") == ["gircse-embedder", "numpy"]
    assert "llama-index-postprocessor-tei-rerank" in matrix._inline_packages(matrix.CLIENTS / "tei_python.py")
    assert all(matrix._inline_packages(path) for path in matrix.scripts() if path.suffix == ".py")


@pytest.mark.parametrize(
    "call", ["checked_vectors([[2.0] + [0.0] * 383], 1)", "checked_ranking([1, 0, 2])", "checked_hits([])"]
)
def test_wrong_results_fail(matrix: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    text = f"from reporting import *\nrun_calls('pytest', {{'wrong': lambda: {call}}})\n"
    (row,) = run(matrix, text, tmp_path, monkeypatch)
    assert row.failed
