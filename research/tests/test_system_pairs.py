"""Pairs of rows of the page of systems: over the seeds that both have, and bold where these agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedder.errors import DataError
from embedder.evaluation.outcomes import Setting, TaskMeasure, TaskOutcomes
from embedder.evaluation.results import task_to_json
from embedder.evaluation.scoring import score
from research.evaluation.comparison import write_comparison

ITEMS = [f"item {n}" for n in range(40)]
# Of 40 items, so many are right.
RIGHT = {
    "plain-1, trained": 10,
    "plain-2, trained": 20,
    "better-1, trained": 20,
    "better-2, trained": 40,
    "better-3, trained": 0,
    "mixed-1, trained": 8,
    "mixed-2, trained": 40,
}


@pytest.fixture
def results() -> dict[str, Any]:
    found = TaskOutcomes(measures=[TaskMeasure("things.all", "success", "mean", (("things",),))])
    found.add_stratum("things", ITEMS)
    for name, right in RIGHT.items():
        found.add("things", "success", Setting(name, "both"), (np.arange(40) < right).astype(float))
    scores = score(found, model="plain-1, trained", baseline="plain-2, trained", resamples=200, seed=0)
    return {
        "model": {"name": "model"},
        "settings": {"bootstrap": 200, "seed": 0, "half": "report", "limit": None},
        "machine": {"cpu": "one", "threads": 1},
        "systems": dict.fromkeys(RIGHT, "fingerprint"),
        "costs": {name: {"texts": 40, "seconds": 1.0} for name in RIGHT},
        "tasks": {"things": task_to_json(found, scores, seconds=0.0)},
    }


def cells_of(page: Path, row: str) -> list[str]:
    (line,) = (line for line in page.read_text().splitlines() if line.startswith(f"| {row} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_seeds_that_both_have_count_and_must_agree(results: dict[str, Any], tmp_path: Path) -> None:
    pairs = [("better, trained", "plain, trained"), ("mixed, trained", "plain, trained")]
    page = write_comparison(results, tmp_path / "page.md", pairs=pairs)
    # 25 and 50 points; the third seed has no other.
    change = cells_of(page, "better, trained – plain, trained")[1]
    assert change.startswith("**+37.50 [")
    assert change.endswith("(+25.0, +50.0)")
    # -5 and +50: an interval over items without 0, but seeds that do not agree.
    change = cells_of(page, "mixed, trained – plain, trained")[1]
    assert change.startswith("+22.50 [+")
    assert change.endswith("(-5.0, +50.0)")


def test_a_row_that_is_not_there_is_refused(results: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--pair names 'plain-1, trained'; the systems are plain, trained"):
        write_comparison(results, tmp_path / "page.md", pairs=[("plain-1, trained", "plain, trained")])
