"""No test fails by the clock of a slow machine: none measures seconds, and whatever waits has the patience of all."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from patience import PATIENCE_S, wait_until

TESTS = Path(__file__).parents[1]
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "thread_time"}
WAITS = {"wait", "result", "communicate", "acquire"}
SHORT_S, LONG_S = 2, 60  # pauses of a loop are shorter, and patience is longer

MEASURING: Mapping[str, str] = {
    "patience.py": "the one place that waits",
    "chaos/chaos_processes.py": "kills and starts when it was planned",
    "chaos/chaos_postgres.py": "waits for PostgreSQL, and starts it again meanwhile",
    "chaos/chaos_run.py": "reports how long a run took",
    "chaos/chaos_web.py": "asks again while the server is away",
    "chaos/test_embedder_away.py": "sorts answers by the moment of their question",
    "e2e/test_kills.py": "sorts answers by the moment of their question, and reports how long one took that failed",
    "e2e/test_newcomer.py": "reports how long a newcomer waits",
    "e2e/compose_application.py": "names the logs of all services",
    "e2e/api_fuzz.py": "reports how long it took",
    "chaos/test_qdrant_nodes_away.py": "its subject is the deadline of a search",
    "stack/compose_stack.py": "reports how long each step took",
    "stack/stack_load.py": "its subject is the deadline of a search",
    "stack/stack_steps.py": "reports how long each step took",
    "unit/reader_fuzz.py": "reports how long it took",
    "unit/test_pdf_text.py": "compares the processor time of a page with that of one ten times as long",
    "unit/test_edge_process.py": "its subject is the deadline of a request",
    "unit/test_embedders.py": "its subject is the deadline of a request",
    "unit/test_watchdog.py": "its subject is a deadline",
    "unit/test_batch_duration.py": "puts a clock of its own in place",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(TESTS.rglob("*.py")):
        yield path.relative_to(TESTS).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def clocks_of(tree: ast.AST) -> set[int]:
    """The lines that read a clock."""
    return {
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr in CLOCKS)
        or (isinstance(node, ast.ImportFrom) and node.module == "time" and CLOCKS & {each.name for each in node.names})
    }


def short_patience_of(tree: ast.AST) -> set[int]:
    """The lines on which something fails after a number of seconds that a busy machine may take."""
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        limits = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
        if isinstance(node.func, ast.Attribute) and node.func.attr in WAITS:
            limits += node.args[:1]
        if any(isinstance(each, ast.Constant) and _is_short(each.value) for each in limits):
            found.add(node.lineno)
    return found


def _is_short(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and SHORT_S <= value < LONG_S


def test_no_test_measures_seconds() -> None:
    reading = {name: lines for name, tree in modules() if (lines := clocks_of(tree))}
    assert {name: lines for name, lines in reading.items() if name not in MEASURING} == {}, (
        "Wait with patience.wait_until, or compare what was done instead of how long it took."
    )
    assert set(MEASURING) <= set(reading), "no longer needed"


def test_whatever_waits_waits_for_minutes() -> None:
    hasty = {name: lines for name, tree in modules() if (lines := short_patience_of(tree))}
    assert hasty == {}, "Wait for PATIENCE_S."


@pytest.mark.parametrize(
    ("program", "is_found"),
    [
        ("assert time.monotonic() - started < 5", True),
        ("from time import perf_counter", True),
        ("time.sleep(1)", False),
    ],
)
def test_clocks_are_found(program: str, is_found: bool) -> None:
    assert bool(clocks_of(ast.parse(program))) is is_found


@pytest.mark.parametrize(
    ("program", "is_found"),
    [
        ("process.wait(timeout=20)", True),
        ("future.result(5)", True),
        ("httpx.get(url, timeout=10.0)", True),
        ("event.wait(0.05)", False),
        ("event.wait(PATIENCE_S)", False),
    ],
)
def test_short_patience_is_found(program: str, is_found: bool) -> None:
    assert bool(short_patience_of(ast.parse(program))) is is_found


def test_what_does_not_happen_fails_by_its_name() -> None:
    assert wait_until(lambda: "found") == "found"
    with pytest.raises(AssertionError, match=r"did not happen within 0\.01 s: nobody came"):
        wait_until(lambda: False, told=lambda: "nobody came", timeout_s=0.01)


def test_pytest_itself_waits_longer(pytestconfig: pytest.Config) -> None:
    """Else it ends a test before that could say what it waited for."""
    assert float(pytestconfig.getini("timeout")) >= 2 * PATIENCE_S
