"""The suite's own care for memory and folders, by a small suite of pytest in another process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
from fastapi import FastAPI
from worker_memory import clear_caches

TESTS = Path(__file__).parents[1]

SUITE = """
import pytest
from pathlib import Path

@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lasting")
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_text("text")
    yield folder
    assert (folder / "sub" / "file").exists()

def test_large(lasting, tmp_path):
    (tmp_path / "own").write_text("text")
    assert len(bytearray(b"1") * 400_000_000)

def test_small(lasting, tmp_path):
    (tmp_path / "own").write_text("text")
    assert (lasting / "sub" / "file").exists()
"""
NEXT = """
def test_folders_are_empty(tmp_path):
    left = [path for path in tmp_path.parent.rglob("*") if path.is_file()]
    assert [path.name for path in left] == {left!r}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "test_first.py").write_text(SUITE)
    (folder / "test_second.py").write_text(NEXT.replace("{left!r}", "[]"))
    return folder


def run_suite(suite: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable, "-m", "pytest", "-p", "worker_memory", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin",
        "--basetemp", str(suite.parent / "temporary"), *options, str(suite),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}"}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    return subprocess.run(command, cwd=suite, env=environment, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize(("options", "process"), [((), "this process"), (("-n", "1"), "gw0")], ids=["alone", "worker"])
def test_a_process_that_grew_too_large_fails_the_run_and_its_test_is_named(
    suite: Path, options: tuple[str, ...], process: str
) -> None:
    done = run_suite(suite, "--most-memory-mb", "300", *options)
    assert done.returncode == 1, done.stdout
    assert "3 passed" in done.stdout
    [line] = [line for line in done.stdout.splitlines() if line.startswith(f"Memory of {process}: ")]
    assert "in test_first.py::test_large; more than the 300 MB that one may take" in line


def test_folders_of_tests_that_passed_are_emptied_at_once(suite: Path) -> None:
    done = run_suite(suite)
    assert done.returncode == 0, done.stdout
    assert "All processes together: " in done.stdout


def test_those_of_failed_tests_stay(suite: Path) -> None:
    (suite / "test_first.py").write_text(SUITE.replace("assert len(", "assert not len("))
    (suite / "test_second.py").write_text(NEXT.replace("{left!r}", "['own', 'file']"))
    done = run_suite(suite)
    assert "1 failed, 2 passed" in done.stdout, done.stdout


def test_applications_of_a_module_are_given_back() -> None:
    def made() -> weakref.ref[FastAPI]:
        application = FastAPI()

        @application.get("/")
        def index() -> str:
            return application.title

        return weakref.ref(application)

    application = made()
    gc.collect()
    assert application() is not None  # its functions are in FastAPI's caches
    clear_caches()
    gc.collect()
    assert application() is None


def test_what_servers_froze_is_looked_through_again() -> None:
    class Held:
        pass

    for _ in range(2):  # one server after the other
        held = Held()
        held.itself = held  # type: ignore[attr-defined]
        reference = weakref.ref(held)
        gc.freeze()
        del held
        gc.collect()
        assert reference() is not None
        clear_caches()
        gc.collect()
        assert reference() is None
