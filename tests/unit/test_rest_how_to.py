"""The examples of docs/how-to/use-the-rest-api.md, run as they stand against a server that listens."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_application import api_of
from patience import PATIENCE_S
from served import served

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-the-rest-api.md"
DOCUMENTED = "http://127.0.0.1:7860"


def example(language: str, url: str) -> str:
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert DOCUMENTED in code
    return str(code).replace(DOCUMENTED, url)


@pytest.fixture
def server_url(toy_services: Any) -> Iterator[str]:
    """With a worker, as `gircse up` has one."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.05):
            toy_services.work_off()

    working = threading.Thread(target=work, daemon=True)
    working.start()
    with served(api_of(toy_services.services)) as url:
        yield url
    stop.set()
    working.join(20)


def run(command: list[str], folder: Path) -> str:
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_examples_work_one_after_the_other(server_url: str, tmp_path: Path) -> None:
    told = run(["bash", "-euo", "pipefail", "-c", example("sh", server_url)], tmp_path)
    assert '"state":"done"' in told
    assert told.count('"text":"I waited two hours and nobody came."') >= 3
    assert "event: explained" in told

    (tmp_path / "example.py").write_text(example("python", server_url), encoding="utf-8")
    lines = run([sys.executable, "example.py"], tmp_path).splitlines()
    assert lines[0] == "queued"
    assert lines[1:3] == ["['upload://letter.txt'] of 2", "['card'] of 2"]
    assert lines[3].startswith("422 The query is empty")

    if shutil.which("node"):
        (tmp_path / "example.mjs").write_text(example("js", server_url), encoding="utf-8")
        told = run(["node", "example.mjs"], tmp_path)
        assert "I waited two hours and nobody came." in told
        assert "'call'" in told
