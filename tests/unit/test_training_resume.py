"""A run that is killed goes on as the same run, and only with what it began with."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from patience import PATIENCE_S
from test_training import data_folder, write_config, write_rows  # noqa: F401

from embedder.errors import DataError
from embedder.training.config import read_config
from embedder.training.progress import RunLog, read_log
from embedder.training.state import TrainingState, load_checkpoint, load_weights, save_checkpoint
from embedder.training.stopping import stop_requests
from embedder.training.train import Trainer

CHECKPOINT = TrainingState(
    step=3, seed=1, data="abc", processes=1, trainable={"w": torch.ones(2)}, optimiser={}, schedule={}
)


# By itself, so that neither a fast nor a busy machine ends it elsewhere.
KILLED_IN_STEP_9 = """
import os, runpy, signal
from embedder.training.train import Trainer
row_of = Trainer._row

def killed_in_step_9(self, step, *given):
    if step == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    return row_of(self, step, *given)

Trainer._row = killed_in_step_9
runpy.run_module("embedder.training", run_name="__main__")
"""


def test_run_killed_at_once_goes_on_with_the_same_batches_and_losses(data_folder, tmp_path):  # noqa: F811
    config = write_config(tmp_path, optimiser_steps=24, checkpoint_every=4, learning_rate=1e-3)
    out = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED_IN_STEP_9, config, "--data", data_folder, "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    before = read_log(out)
    assert 7 <= len(before) < 24
    assert 4 <= torch.load(out / "checkpoint.pt", weights_only=True)["step"] <= len(before)
    Trainer(read_config(config), data=data_folder, out=out).run()
    Trainer(read_config(config), data=data_folder, out=tmp_path / "whole").run()
    resumed, whole = read_log(out), read_log(tmp_path / "whole")
    for name in ("step", "kind", "task", "texts"):
        assert [row[name] for row in resumed] == [row[name] for row in whole]
    for one, other in zip(resumed, whole, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)


@pytest.mark.parametrize(("number", "end"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_run_that_is_asked_to_stop_keeps_its_last_step(data_folder, tmp_path, capfd, number, end):  # noqa: F811
    config, out = read_config(write_config(tmp_path, optimiser_steps=8, checkpoint_every=8)), tmp_path / "stopped"
    trainer = Trainer(config, data=data_folder, out=out)
    row_of = trainer._row

    def asked_to_stop(step, *given):
        if step == 2:
            os.kill(os.getpid(), number)
        return row_of(step, *given)

    trainer._row = asked_to_stop
    with pytest.raises(end) as stopped:
        trainer.run()
    if end is SystemExit:
        assert stopped.value.code == 143
    assert "Stopping after the step under way" in capfd.readouterr().err
    assert len(read_log(out)) == 3
    assert torch.load(out / "checkpoint.pt", weights_only=True)["step"] == 3
    assert not (out / "adapter").exists()
    Trainer(config, data=data_folder, out=out).run()
    assert len(read_log(out)) == 8


def test_a_second_signal_stops_at_once():
    before = signal.getsignal(signal.SIGINT)
    with stop_requests(is_alone=True) as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_of_several_processes_none_stops_by_itself():
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with stop_requests(is_alone=False) as stop:
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
        stop.check()


def test_checkpoint_brings_the_random_numbers_back(tmp_path):
    torch.manual_seed(5)
    save_checkpoint(tmp_path, CHECKPOINT)
    expected = torch.rand(3)
    torch.rand(100)
    loaded = load_checkpoint(tmp_path, seed=1, data="abc", processes=1)
    assert (loaded.step, loaded.seed) == (3, 1)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(load_weights(tmp_path)["w"], torch.ones(2))
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    ("now", "complaint"),
    [
        ({"data": "other"}, "another training data"),
        ({"seed": 2}, "another seed"),
        ({"processes": 2}, "another number of processes"),
    ],
)
def test_checkpoint_of_another_run_is_refused(tmp_path, now, complaint):
    save_checkpoint(tmp_path, CHECKPOINT)
    with pytest.raises(DataError, match=complaint):
        load_checkpoint(tmp_path, **{"seed": 1, "data": "abc", "processes": 1, **now})


def test_checkpoint_of_another_version_and_none_at_all_are_told_apart(tmp_path):
    assert load_checkpoint(tmp_path, seed=1, data="abc", processes=1) is None
    with pytest.raises(DataError, match="not the folder of a run"):
        load_weights(tmp_path)
    torch.save({"step": 3, "trainable": {}}, tmp_path / "checkpoint.pt")
    with pytest.raises(DataError, match="another version"):
        load_checkpoint(tmp_path, seed=1, data="abc", processes=1)


def test_half_a_line_left_by_a_kill_is_not_read(tmp_path):
    row = {"step": 0, "loss": 1.0}
    (tmp_path / "log.jsonl").write_text(f'{json.dumps(row)}\n{{"step": 1, "lo')
    assert read_log(tmp_path) == [row]
    RunLog(tmp_path).add({"step": 1, "loss": 0.5})
    assert read_log(tmp_path) == [row, {"step": 1, "loss": 0.5}]
    (tmp_path / "log.jsonl").write_text(
        "".join(json.dumps(replace_step) + "\n" for replace_step in (row, {**row, "loss": 2.0}))
    )
    assert read_log(tmp_path) == [{"step": 0, "loss": 2.0}]


def test_added_training_files_are_noticed(data_folder, tmp_path):  # noqa: F811
    config = read_config(write_config(tmp_path, optimiser_steps=1))
    Trainer(config, data=data_folder, out=tmp_path / "run").run()
    other = tmp_path / "train"
    other.mkdir()
    write_rows(other / "pairs.other.jsonl.gz", [{"query": f"q{n}", "pos": [f"p{n}"]} for n in range(5)])
    with pytest.raises(DataError, match="another training data"):
        Trainer(replace(config), data=other, out=tmp_path / "run").run()
