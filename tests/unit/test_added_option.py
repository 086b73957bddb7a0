"""An option of the search is written once: here one is added to the source of `app.types.search`, in a process of its
own, and every interface has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("added option")  # the program runs once

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    program = [sys.executable, str(ROOT / "tests" / "added_option.py"), str(tmp_path_factory.mktemp("home"))]
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests")))
    done = subprocess.run(program, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_rest_describes_it_checks_it_and_passes_it_on(seen: dict[str, Any]) -> None:
    field = seen["rest schema"]
    assert field["description"] == "The wanted tone."
    assert field["anyOf"][0] == {"type": "string", "maxLength": 9}
    assert seen["rest"] == "warm"
    assert seen["rest refuses"] == [422, True]


def test_agents_have_it(seen: dict[str, Any]) -> None:
    assert seen["agents schema"]["description"] == "The wanted tone."
    assert seen["agents"] == "warm"


def test_the_command_line_has_it(seen: dict[str, Any]) -> None:
    assert "--tone" in seen["help"]
    assert "The wanted tone." in seen["help"]
    assert seen["command"] == "warm"
    assert "tone: String should have at most 9 characters" in seen["command refuses"]


def test_saved_searches_keep_it(seen: dict[str, Any]) -> None:
    assert seen["saved"] == {"query": "cat", "collection": "library", "tone": "warm"}
    assert seen["saved again"] == "warm"


def test_the_page_has_a_field_for_it_and_its_address_holds_it(seen: dict[str, Any]) -> None:
    assert seen["field"] == ["Tone", "The wanted tone."]
    assert seen["page"] == "warm"
    assert seen["page refuses"].startswith("tone: ")
    assert "tone=warm" in seen["address"]
    assert seen["script"] == {"name": "tone", "usual": "", "empty": ""}
    assert seen["restored"] == "warm"


def test_the_retriever_passes_it_on(seen: dict[str, Any]) -> None:
    assert seen["retriever"] == "warm"
