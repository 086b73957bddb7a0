"""Once installed, nothing asks another machine for anything: the network is denied, and every attempt would be seen.

Two witnesses: an audit hook in every Python process, and, where namespaces may be made, the kernel's own counters.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("offline")]

HERE = Path(__file__).parent
_LOOPBACK_ONLY = 'ip link set lo up && exec "$@"'
_SOMEWHERE = "192.0.2.1"  # an address of RFC 5737, which belongs to nobody


@cache
def namespace_prefix() -> list[str]:
    """What to write before a command so that it sees loopback and no other network; empty where that is not allowed."""
    if not (shutil.which("unshare") and shutil.which("ip")):
        return []
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    prefix = ["unshare", *user, "--net", "sh", "-c", _LOOPBACK_ONLY, "sh"]
    return prefix if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0 else []


def environment(attempts: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIRCSE_", "HF_", "GRADIO_"))}
    paths = os.pathsep.join([str(HERE / "without_network"), str(HERE)])
    return {**kept, "PYTHONPATH": paths, "NETWORK_ATTEMPTS": str(attempts), "HOME": str(attempts.parent)}


def run(program: list[str], attempts: Path) -> subprocess.CompletedProcess[str]:
    command = [*namespace_prefix(), sys.executable, *program]
    return subprocess.run(command, env=environment(attempts), capture_output=True, text=True, timeout=800, check=False)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Ingestion, search and the page with the network denied. `attempts` is what the audit hooks recorded."""
    folder = tmp_path_factory.mktemp("offline")
    (folder / "notes").mkdir()
    (folder / "notes" / "cat.txt").write_text("The cat sleeps on the sofa.", encoding="utf-8")
    (folder / "notes" / "rates.html").write_text("<p>The bank raised interest rates.</p>", encoding="utf-8")
    attempts = folder / "attempts.txt"
    result = run([str(HERE / "offline_day.py"), str(folder / "home"), str(folder / "notes")], attempts)
    assert result.returncode == 0, result.stderr
    return {**json.loads(result.stdout), "attempts": attempts.read_text("utf-8") if attempts.exists() else ""}


def test_all_works_without_a_network(day: dict[str, Any]) -> None:
    assert "2 added or updated (2 chunks), 0 unchanged, 0 failed." in day["summary"]
    assert set(day["texts"]) == {"The cat sleeps on the sofa.", "The bank raised interest rates."}
    assert day["texts_over_http"] == day["texts"]
    assert "gircse" in day["page"]


def test_no_python_code_tries_to_reach_another_machine(day: dict[str, Any]) -> None:
    assert day["attempts"] == ""


def test_no_native_code_tries_to_reach_another_machine(day: dict[str, Any]) -> None:
    if not namespace_prefix():
        pytest.skip("network namespaces cannot be made here (unshare and ip are needed, and the right to use them)")
    assert day["refused_by_kernel"] == 0


def test_witness_in_python_sees_an_attempt(tmp_path: Path) -> None:
    attempts = tmp_path / "attempts.txt"
    result = run(["-c", f"import socket; socket.create_connection(({_SOMEWHERE!r}, 80))"], attempts)
    assert "no network in this test" in result.stderr
    assert _SOMEWHERE in attempts.read_text("utf-8")


def test_witness_in_the_kernel_sees_an_attempt() -> None:
    if not namespace_prefix():
        pytest.skip("network namespaces cannot be made here (unshare and ip are needed, and the right to use them)")
    program = (
        "import socket, offline_day; before = offline_day.refused_by_kernel(); "
        f"socket.socket().connect_ex(({_SOMEWHERE!r}, 80)); print(offline_day.refused_by_kernel() - before)"
    )
    command = [*namespace_prefix(), sys.executable, "-c", program]
    result = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(HERE)}, capture_output=True, text=True, check=True
    )
    assert int(result.stdout) >= 1
