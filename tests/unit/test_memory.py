"""What a process may take. A long document does not pass through a worker whole; longer ones are measured by
`research/benchmarks/memory.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from app.runtime.memory import allowed_bytes

MEGABYTES = 20  # what does not grow with a document takes half of it


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps the peak of a process")
def test_a_long_document_takes_less_memory_than_it_has_bytes(tmp_path: Path) -> None:
    """Held whole, as bytes, text, chunks and payloads, it would take several times its size."""
    script = Path(__file__).with_name("memory_process.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(MEGABYTES)], capture_output=True, text=True, check=True
    )
    (small_count, before_kb), (long_count, after_kb) = (map(int, line.split()) for line in done.stdout.splitlines())
    assert (small_count, long_count) == (100, 100 * MEGABYTES)
    assert after_kb - before_kb < MEGABYTES * 1_000


@pytest.mark.parametrize(
    ("groups", "limits", "allowed"),
    [
        ("0::/user.slice/one", {"user.slice/one/memory.max": "300000000"}, 300_000_000),
        ("0::/user.slice/one", {"user.slice/one/memory.max": "max", "user.slice/memory.max": "200"}, 200),
        ("0::/", {"memory.max": "400"}, 400),  # in a container
        ("9:memory:/one\n8:cpu,cpuacct:/two", {"memory/one/memory.limit_in_bytes": "500"}, 500),
        ("9:memory:/docker/of-the-host", {"memory/memory.limit_in_bytes": "600"}, 600),
        ("0::/one", {}, psutil.virtual_memory().total),
        ("", {}, psutil.virtual_memory().total),
    ],
)
def test_what_control_groups_leave_a_process(groups: str, limits: dict[str, str], allowed: int, tmp_path: Path) -> None:
    for name, text in {f"sys/fs/cgroup/{name}": text for name, text in limits.items()}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(f"{groups}\n" if groups else "")
    assert allowed_bytes(tmp_path) == allowed
