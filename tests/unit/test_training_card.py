"""What a run leaves for people: model card, log line, curves."""

import json
from pathlib import Path

import pytest
import yaml
from test_training import data_folder, write_config  # noqa: F401

from embedder.errors import DataError
from embedder.evaluation.card import SCORES_BEGIN, SCORES_END, fill_scores
from embedder.model.contract import read_contract
from embedder.training.card import read_licences
from embedder.training.config import read_config
from embedder.training.plots import plot_run
from embedder.training.progress import RecentSteps, summarise
from embedder.training.train import Trainer


def step(number, *losses, worse=0):
    return {"step": number, "kind": "pairs", "loss": 1.0, "stepwise": list(losses), "worse": worse, "texts": 10}


@pytest.fixture
def run_folder(tmp_path):
    """The log of two steps and a validation."""
    rows = [step(0, 3.0, 2.0, 1.0), step(1, 1.0, 2.0, 3.0, worse=2), {"step": 2, "validation": {"sts.k5": 80.5}}]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_bar_shows_the_first_and_last_loss_and_where_the_regulariser_acts():
    recent = RecentSteps()
    recent.add(step(0, 3.0, 2.0, 1.0))
    recent.add(step(1, 1.0, 2.0, 3.0, worse=2))
    assert recent.postfix() == {"loss": "1.000", "L_1": "2.000", "L_K": "2.000", "worse": "50%"}
    alone = RecentSteps()
    alone.add(step(0, 3.0))
    assert alone.postfix()["worse"] == "0%"


def test_summary_is_one_line(run_folder):
    assert summarise(run_folder) == (
        "2 steps, 20 texts; over the last 2: loss 1.000, L_1 2.000, L_K 2.000, 50% of transitions got worse; "
        "last validation sts.k5 80.5."
    )


def test_curves_are_drawn_with_and_without_validation(run_folder, tmp_path):
    plot_run(run_folder, tmp_path / "with.png")
    (run_folder / "log.jsonl").write_text(json.dumps(step(0, 1.0)) + "\n")
    plot_run(run_folder, tmp_path / "without.png")
    assert (tmp_path / "with.png").read_bytes() != (tmp_path / "without.png").read_bytes()
    assert (tmp_path / "without.png").stat().st_size > 10_000


def test_scores_are_filled_in_again_and_again(tmp_path):
    card = tmp_path / "README.md"
    card.write_text(f"Above.\n{SCORES_BEGIN}\nNot measured yet.\n{SCORES_END}\nBelow.\n")
    for table in ("| a |\n|---|\n| 1 |\n", "| b |\n|---|\n| 2 |"):
        fill_scores(card, table)
        assert card.read_text() == f"Above.\n{SCORES_BEGIN}\n{table.strip()}\n{SCORES_END}\nBelow.\n"
    card.write_text("By hand.")
    with pytest.raises(DataError, match="no place for scores"):
        fill_scores(card, "")


def test_licences_are_read_from_the_table_of_the_data(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "README.md").write_text(
        "# Data\n\n| split | file | licence | rows |\n|---|---|---|---|\n| train | pairs.facts | CC BY 4.0 | 3 |\n"
        "\n| other | table |\n|---|---|\n| a | b |\n"
    )
    assert read_licences(tmp_path / "train")["pairs.facts"] == "CC BY 4.0"


def test_card_is_written_beside_the_adapter_and_never_over_one(data_folder, tmp_path):  # noqa: F811
    readme = Path(data_folder).parent / "README.md"
    readme.write_text("| file | license |\n|---|---|\n| labels.zoo | CC0 |\n")
    config = read_config(write_config(tmp_path, optimiser_steps=1))
    folder = Trainer(config, data=data_folder, out=tmp_path / "run").run()
    readme.unlink()
    card = (folder / "README.md").read_text()
    front = yaml.safe_load(card.split("---")[1])
    assert front["license"] == "apache-2.0"
    assert "base_model" not in front  # a folder of this machine says nothing to others
    assert SCORES_BEGIN in card.split(SCORES_END)[0]
    assert "| labels.zoo | CC0 |" in card
    assert "| pairs.facts | not stated |" in card
    assert f"| fingerprint | `{read_contract(folder).fingerprint}` |" in card
    assert "1 optimiser steps" in card
    (folder / "README.md").write_text("Written by hand.")
    Trainer(config, data=data_folder, out=tmp_path / "run").run()
    assert (folder / "README.md").read_text() == "Written by hand."
