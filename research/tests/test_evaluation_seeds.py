"""Variants over seeds: means, both kinds of interval, and what may not be compared."""

import json

import numpy as np
import pytest

from embedder.evaluation.card import SCORES_BEGIN, SCORES_END
from embedder.evaluation.outcomes import Setting, TaskMeasure, TaskOutcomes
from embedder.evaluation.results import FORMAT, task_to_json
from embedder.evaluation.scoring import score
from research.evaluation.__main__ import main

ITEMS = [f"item {n}" for n in range(40)]


def write_run(folder, name, successes, *, settings=None):
    """A run that gets the first `successes` of 40 items right."""
    found = TaskOutcomes(measures=[TaskMeasure("things.all", "success", "mean", (("things",),))])
    found.add_stratum("things", ITEMS)
    found.add("things", "success", Setting(name, "both", 5, 5), (np.arange(40) < successes).astype(float))
    scores = score(found, model=name, baseline="MiniLM", resamples=200, seed=0)
    results = {
        "format": FORMAT,
        "model": {"name": name, "fingerprint": name, "dimension": 4},
        "settings": {"bootstrap": 200, "seed": 0, "document_steps": [5]} | (settings or {}),
        "data": {},
        "commit": None,
        "versions": {},
        "machine": {"cpu": "one", "threads": 1, "device": "cpu"},
        "tasks": {"things": task_to_json(found, scores, seconds=0.0)},
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(results))
    return str(path)


def rows_of(page):
    lines = [line for line in page.read_text().splitlines() if line.startswith("| ") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_rows_hold_means_over_seeds_and_differences_to_the_row_above(tmp_path):
    files = [
        write_run(tmp_path, *run) for run in (("plain-1", 20), ("plain-2", 24), ("better-1", 28), ("better-2", 32))
    ]
    out = tmp_path / "table.md"
    assert main(["seeds", *files, "--out", str(out), "--order", "plain", "better"]) == 0
    _, plain, better = rows_of(out)
    # Two seeds: half the distance times t(0.975, 1 degree of freedom) = 12.706.
    assert plain == ["plain", "55.0 [-8.5, 118.5]", "50.0, 60.0", "–", "–"]
    assert better[:3] == ["better", "75.0 [11.5, 138.5]", "70.0, 80.0"]
    assert better[3] == "**+20.00 [+20.00, +20.00]**"  # either seed gained exactly 20
    value, low, high = (float(x) for x in better[4].strip("*").translate(str.maketrans("[],", "   ")).split())
    assert value == 20.0
    assert 5 < low < 15 < 25 < high < 35  # 8 of 40 items: the standard error of their share is 6.3


def test_one_seed_has_no_interval_over_seeds(tmp_path):
    files = [write_run(tmp_path, *run) for run in (("plain-1", 20), ("better-1", 28))]
    out = tmp_path / "table.md"
    assert main(["seeds", *files, "--out", str(out), "--order", "plain", "better"]) == 0
    _, plain, better = rows_of(out)
    assert plain == ["plain", "50.0", "50.0", "–", "–"]
    assert better[:4] == ["better", "70.0", "70.0", "–"]
    assert better[4].startswith("**+20.00 [+")


@pytest.mark.parametrize(
    ("runs", "complaint"),
    [
        ([("plain-1", 20), ("plain-2", 20), ("better-1", 20)], "different seeds"),
        ([("plain", 20)], "VARIANT-SEED"),
        ([("plain-1", 20), ("better-1", 20, {"limit": 3})], "different settings"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(tmp_path, capsys, runs, complaint):
    files = [write_run(tmp_path, name, n, settings=rest[0] if rest else None) for name, n, *rest in runs]
    assert main(["seeds", *files, "--out", str(tmp_path / "table.md")]) == 1
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "table.md").exists()


def test_unknown_variant_is_refused_by_name(tmp_path, capsys):
    files = [write_run(tmp_path, "plain-1", 20)]
    assert main(["seeds", *files, "--out", str(tmp_path / "t.md"), "--order", "plain", "other"]) == 1
    assert "'other'" in capsys.readouterr().err


def test_report_puts_the_figures_of_all_files_into_a_model_card(tmp_path):
    files = [write_run(tmp_path, "plain-1", 20), write_run(tmp_path, "better-1", 30)]
    card = tmp_path / "README.md"
    card.write_text(f"# Mine\n\n{SCORES_BEGIN}\nNot measured yet.\n{SCORES_END}\n\n## Limits\n")
    assert main(["report", *files, "--out", str(tmp_path / "report"), "--card", str(card)]) == 0
    text = card.read_text()
    assert "Not measured yet" not in text
    assert text.startswith("# Mine")
    assert text.endswith("## Limits\n")
    rows = rows_of(card)
    assert [row[:4] for row in rows[1:]] == [["things.all", "success", "both sides", "5"]] * 2
    assert [row[4].split()[0] for row in rows[1:]] == ["50.00", "75.00"]
