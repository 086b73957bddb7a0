"""The mean of adapters that began with the same weights."""

import shutil
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from test_training import data_folder, write_config  # noqa: F401
from test_training_head import ENCODER, HEAD, INSTRUCTION, TEXT

from embedder import load_encoder
from embedder.errors import DataError
from embedder.extensions.answer_reader import load_answer_reader
from embedder.model.backbone import locate_model
from embedder.training.answer_reader import BASE, TrainedReader, save_reader
from embedder.training.config import read_config
from embedder.training.train import Trainer
from research.training import average
from research.training.average import average_adapters


@pytest.fixture(scope="module")
def runs(data_folder, tmp_path_factory):  # noqa: F811
    """A first stage, two further ones from it with other seeds, and one with a soft head."""
    folder = tmp_path_factory.mktemp("average")

    def train(name, start_from=None, **changes):
        config = read_config(write_config(folder, **{**ENCODER, "learning_rate": 1e-2, **changes}))
        Trainer(config, data=data_folder, out=folder / name, start_from=start_from).run()
        return folder / name

    first = train("first")
    further = [train(f"seed-{seed}", first, seed=seed) for seed in (2, 3)]
    return first, *further, train("head", first, **HEAD)


def _weights(folder):
    return load_file(folder / "adapter_model.safetensors")


def test_factors_are_averaged_and_what_lora_adds_is_scaled(runs, tmp_path):
    _, one, other, _ = runs
    mean = _weights(average_adapters([one, other], tmp_path / "mean", scale=0.5))
    two = [_weights(each / "adapter") for each in (one, other)]
    assert any(not torch.equal(two[0][name], two[1][name]) for name in mean)
    for name, value in mean.items():
        scale = 0.5 if ".lora_B." in name else 1.0
        torch.testing.assert_close(value, scale * (two[0][name] + two[1][name]) / 2, msg=name)


def test_the_mean_is_a_model_and_begins_a_further_stage(runs, data_folder, tmp_path):  # noqa: F811
    _, one, other, _ = runs
    folder = average_adapters([one, other], tmp_path / "mean")
    mean = load_encoder(str(folder), dtype="float32")
    vectors = [
        load_encoder(str(each / "adapter"), dtype="float32").encode_queries([TEXT], instruction=INSTRUCTION)[0]
        for each in (one, other)
    ]
    found = mean.encode_queries([TEXT], instruction=INSTRUCTION)[0]
    assert min(found @ each for each in vectors) > vectors[0] @ vectors[1]  # it lies between them
    further = Trainer(
        read_config(write_config(tmp_path, **HEAD)), data=data_folder, out=tmp_path / "head", start_from=folder
    )
    further._begin()
    begun = {name: each for name, each in further._model.state_dict().items() if ".lora_B." in name}
    saved = _weights(folder)
    assert begun
    for name, value in begun.items():
        assert torch.equal(value, saved[name.replace(".default", "").replace("model.bert.", "model.")]), name


def test_soft_heads_are_averaged_and_keep_their_words(runs, tmp_path):
    head = runs[3]
    mean = _weights(average_adapters([head, head], tmp_path / "mean"))
    for name, value in _weights(head / "adapter").items():
        torch.testing.assert_close(mean[name], value, msg=name)


def test_readers_of_answers_are_averaged(tmp_path, monkeypatch):
    base = locate_model(BASE)
    for number in range(2):
        torch.manual_seed(number)
        save_reader(TrainedReader(base), tmp_path / f"reader-{number}", base=base)
    one, other, out = (str(tmp_path / name) for name in ("reader-0", "reader-1", "mean"))
    monkeypatch.setattr(sys, "argv", ["average", one, other, "--out", out])
    average.main()
    for name in ("adapter_model.safetensors", "head.safetensors"):
        mean, *two = (load_file(f"{folder}/{name}") for folder in (out, one, other))
        for key, value in mean.items():
            torch.testing.assert_close(value, ((two[0][key].float() + two[1][key].float()) / 2).to(value.dtype))
    assert load_answer_reader(tmp_path / "mean").score("Who?", ["Ms Webb."]).shape == (1,)
    (tmp_path / "reader-1" / "head.safetensors").write_bytes(b"")
    with pytest.raises(SystemExit):
        average.main()


def test_adapters_that_are_not_alike_are_refused(runs, tmp_path):
    first, one, _, head = runs
    with pytest.raises(DataError, match="are no adapters of one kind"):
        average_adapters([one, head], tmp_path / "no")
    other_words = shutil.copytree(head / "adapter", tmp_path / "other words")
    weights = {name: value + 1 if name.endswith(".pieces") else value for name, value in _weights(other_words).items()}
    save_file(weights, other_words / "adapter_model.safetensors")
    with pytest.raises(DataError, match="are no adapters of one kind"):
        average_adapters([head, other_words], tmp_path / "no")
    with pytest.raises(DataError, match="holds no adapter: name the folder of a run"):
        average_adapters([first, tmp_path / "nothing"], tmp_path / "no")
    with pytest.raises(DataError, match=r"scale is 1\.5, but must lie above 0 and be 1 at most"):
        average_adapters([first, one], tmp_path / "no", scale=1.5)
    assert not (tmp_path / "no").exists()


def test_by_command(runs, tmp_path, monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["average", *map(str, arguments)])
        average.main()

    run(runs[1], runs[2], "--out", tmp_path / "mean")
    assert "2 adapters averaged" in capsys.readouterr().out
    assert set(_weights(tmp_path / "mean")) == set(_weights(runs[1] / "adapter"))
    with pytest.raises(SystemExit) as refused:
        run(runs[1], tmp_path, "--out", tmp_path / "no")
    assert (refused.value.code, "holds no adapter" in capsys.readouterr().err) == (1, True)
