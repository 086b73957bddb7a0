"""Files around the product: systemd unit, citation, templates of issues, pre-commit, the site of the docs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "docs" / "how-to" / "gircse.service"


def read_yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def test_the_unit_runs_everything_as_a_user_who_may_write_one_folder() -> None:
    unit = RawConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    service = unit["Service"]
    assert service["ExecStart"].split()[1:] == ["up"]
    assert service["User"] != "root"
    assert (service["ProtectSystem"], service["NoNewPrivileges"]) == ("strict", "true")
    assert f"GIRCSE_HOME=/var/lib/{service['StateDirectory']}" in service["Environment"].split()
    page = (ROOT / "docs" / "how-to" / "self-host.md").read_text("utf-8")
    for path in (service["ExecStart"].partition("/bin/")[0], service["EnvironmentFile"].lstrip("-")):
        assert path in page


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text("utf-8").replace("/opt/gircse/bin/gircse", "/bin/true"), "utf-8")
    checked = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    assert UNIT.name not in checked.stderr


def test_the_citation_has_the_version_of_the_product() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = read_yaml("CITATION.cff")
    assert (citation["title"], citation["version"]) == (project["name"], project["version"])


def test_the_changelog_has_unreleased_and_then_the_current_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert [line for line in text.splitlines() if line.startswith("## ")][:2] == [
        "## Unreleased",
        f"## {project['version']}",
    ]


@pytest.mark.parametrize("name", ["bug", "idea"])
def test_templates_of_issues_ask_for_text(name: str) -> None:
    template = read_yaml(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert {"name", "description", "body"} <= template.keys()
    fields = [each for each in template["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields) > 0


def test_pre_commit_runs_the_checks_of_make() -> None:
    checks = (ROOT / "Makefile").read_text("utf-8").partition("\ncheck:")[2].partition("\n\n")[0]
    for hook in read_yaml(".pre-commit-config.yaml")["repos"][0]["hooks"]:
        assert hook["entry"].removeprefix(".venv/bin/") in checks.replace("$(BIN)/", ""), hook["id"]


def build_site(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = ["tool", "run", "--quiet", "--from", "mkdocs>=1.6,<2", "--with", "mkdocs-material>=9.6,<10", "mkdocs"]
    return subprocess.run(
        [sys.executable, "-m", "uv", *command, "build", "--strict", "--site-dir", str(out)],
        cwd=source,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )


@pytest.mark.long
def test_the_site_builds_and_a_broken_link_fails_it(tmp_path: Path) -> None:
    """Needs a package index that has mkdocs-material."""
    built = build_site(ROOT, tmp_path / "site")
    assert built.returncode == 0, built.stderr
    first = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert 'href="how-to/self-host.html"' in first
    assert (tmp_path / "site" / "embedder" / "models" / "gircse-small" / "index.html").is_file()
    copy = tmp_path / "copy"
    for name in ("docs", "scripts", "sample", "embedder/models", "research"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("*.safetensors", "__pycache__"))
    for path in (*ROOT.glob("*.md"), ROOT / "LICENSE", ROOT / "mkdocs.yml"):
        shutil.copyfile(path, copy / path.name)
    page = copy / "docs" / "tutorial.md"
    page.write_text(
        page.read_text("utf-8") + "\n[gone](how-to/gone.md) [no anchor](how-to/self-host.md#gone)\n", "utf-8"
    )
    broken = build_site(copy, tmp_path / "broken")
    assert broken.returncode != 0
    assert all(link in broken.stderr for link in ("how-to/gone.md", "anchor '#gone'")), broken.stderr
