"""The workflow of public CI fits GitHub's schema, and runs what is said of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.pin_images import images_in

ROOT = Path(__file__).parents[2]
FILE = ROOT / ".github" / "workflows" / "ci.yml"
JOBS: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))["jobs"]


def commands(job: str) -> str:
    return "\n".join(step.get("run", "") for step in JOBS[job]["steps"])


@pytest.mark.parametrize("schema", ["vendor.github-workflows", "custom.github-workflows-require-timeout"])
def test_it_fits_the_schema(schema: str) -> None:
    program = shutil.which("check-jsonschema", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("check-jsonschema is not installed (extra dev)")
    command = [program, "--builtin-schema", schema, str(FILE)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout


def test_its_images_are_those_of_dockerfile_and_compose_file() -> None:
    texts = [(ROOT / name).read_text("utf-8") for name in ("Dockerfile", "docker-compose.yml")]
    pinned = {found for text in texts for found in images_in(text)}
    own = list(images_in(FILE.read_text("utf-8")))
    assert {image.name for image, _ in own} == {"python", "qdrant/qdrant"}
    assert len(own) == FILE.read_text("utf-8").count(" image: ")
    assert set(own) <= pinned


def test_actions_of_others_are_named_by_their_commit() -> None:
    used = [step["uses"] for job in JOBS.values() for step in job["steps"] if "uses" in step]
    assert used
    assert all(len(each.partition("@")[2]) == 40 for each in used)


def test_its_jobs_are_the_tests_those_of_research_and_those_of_a_server() -> None:
    assert ".ci/run" in commands("tests").splitlines()
    assert "make research-test" in commands("research").splitlines()
    job = JOBS["qdrant"]
    assert "make server-test" in commands("qdrant").splitlines()
    assert job["env"]["GIRCSE_TEST_QDRANT_URL"] == "http://qdrant:6333"
    assert job["env"]["GIRCSE_TEST_QDRANT_API_KEY"] == job["services"]["qdrant"]["env"]["QDRANT__SERVICE__API_KEY"]
    assert "GIRCSE_TEST_QDRANT" in JOBS["qdrant-cluster"]["steps"][-1]["env"]
