"""What `gircse eval` and `gircse train` hand over to the experiments, and what they say where these are missing."""

import importlib
import tomllib
from pathlib import Path

import pytest

from embedder.evaluation.__main__ import main as evaluate
from embedder.training.__main__ import main as train

ROOT = Path(__file__).parents[2]
ASKED = [
    (evaluate, ["seeds", "a-1.json", "--out", "page.md"], "seeds", "research.evaluation"),
    (evaluate, ["--data", "dev", "--out", "a.json", "--trained=runs/a"], "--trained=runs/a", "research.evaluation"),
    (train, ["matrix.yaml", "--matrix", "--data", "train", "--out", "runs"], "--matrix", "research.training"),
]


@pytest.mark.parametrize(("program", "arguments", "asked", "module"), ASKED)
def test_what_belongs_to_the_experiments_says_where_they_are(program, arguments, asked, module, monkeypatch, capsys):
    monkeypatch.setattr("embedder.command.status.entry_points", lambda **_: ())
    assert program(arguments) == 2
    assert f"{asked} is part of the experiments" in (told := capsys.readouterr().err)
    assert f"`python -m {module}`" in told


@pytest.mark.parametrize(("program", "arguments", "asked", "module"), ASKED)
def test_where_they_are_installed_they_take_over(program, arguments, asked, module, monkeypatch):
    taken = []

    class Entry:
        def load(self):
            return lambda given: taken.append(given) or 3

    def installed(**wanted):
        assert wanted == {"group": "gircse.experiments", "name": "train" if program is train else "eval"}
        return [Entry()]

    monkeypatch.setattr("embedder.command.status.entry_points", installed)
    assert (program(arguments), taken) == (3, [arguments])


def test_the_entry_points_of_research_are_programs():
    project = tomllib.loads((ROOT / "research" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = project["entry-points"]["gircse.experiments"]
    assert found.keys() == {"eval", "train"}
    for name, target in found.items():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function)), name
