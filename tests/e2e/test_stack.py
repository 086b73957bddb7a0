"""docker-compose.yml under Docker, both profiles: started, filled with the sample library, searched, removed.

All of `make stack-test` is longer; this is its beginning.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "stack"))

from compose_stack import ROOT, StackError, reason_to_skip
from stack_images import choose_images

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("profiles", ["cpu,single", "cpu,cluster"])
def test_stack_starts_and_is_searched(profiles: str, tmp_path: Path) -> None:
    if reason := reason_to_skip():
        pytest.skip(reason)
    try:
        choose_images()
    except StackError as error:
        pytest.skip(str(error))
    program = [sys.executable, str(ROOT / "tests/stack/run_stack.py"), "--only", "start", "--profiles", profiles]
    done = subprocess.run([*program, "--out", str(tmp_path / "table.md")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "table.md").read_text("utf-8").count("| passed |") == 5
