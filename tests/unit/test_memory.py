"""A long document does not pass through the memory of a worker whole; `benchmarks/memory.py` measures longer ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
