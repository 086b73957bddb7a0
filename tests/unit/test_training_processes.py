"""A run of two processes: each has batches of its own, the gradient is their mean, one of them writes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from postgres_server import free_port
from safetensors.torch import load_file
from test_training import data_folder, write_config  # noqa: F401

from embedder.errors import DataError
from embedder.training.compute import Compute
from embedder.training.config import read_config
from embedder.training.progress import read_log
from embedder.training.train import Trainer

PROCESS = Path(__file__).with_name("training_process.py")


def train_in_two_processes(config, data, out, result):
    shared = {
        **os.environ, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true",
    }  # fmt: skip
    running = [
        subprocess.Popen(
            [sys.executable, PROCESS, config, data, out, result],
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        errors = [process.communicate(timeout=240)[1] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0], "\n".join(errors)


@pytest.mark.long  # three programs that import torch; most of it is covered by the tests of one process
def test_processes_stay_one_run(data_folder, tmp_path):  # noqa: F811
    changes = {"optimiser_steps": 2, "device": "cpu", "learning_rate": 1e-3, "distillation_weight": 0.0}
    config, out = write_config(tmp_path, **changes), tmp_path / "run"
    train_in_two_processes(config, data_folder, out, tmp_path / "result")
    first, second = (load_file(tmp_path / f"result.{rank}") for rank in range(2))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)

    alone = Trainer(read_config(config), data=data_folder, out=tmp_path / "alone")
    for index in range(2):  # the batches of the two processes at step 0; gradients add up
        alone._objective.backward([alone._sampler.batch(index)])
    for name, parameter in alone._trained.items():
        expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad / 2
        torch.testing.assert_close(first[f"gradient.{name}"], expected, rtol=1e-4, atol=1e-6)
    texts = [
        sum(len(b.queries) + len(b.documents) for b in map(alone._sampler.batch, pair)) for pair in ((0, 1), (2, 3))
    ]
    assert [row["texts"] for row in read_log(out)] == texts  # one row a step: only one process writes


def test_missing_gpu_is_named():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(DataError, match="device is 'cuda', but torch sees no GPU"):
        Compute(device="cuda")
