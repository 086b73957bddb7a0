"""Publishes a trained model: weights, contract with hashes and golden vectors, config, model card."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from peft import PeftModel
from safetensors.torch import save_file

from embedder.checkpoint import write_contract
from embedder.model.adapter import WEIGHTS_FILE
from embedder.model.backbone import locate_model
from embedder.model.contract import ADAPTER_FILES, CONTRACT_FILE, Contract, hash_files
from embedder.model.gguf_source import copy_notices
from embedder.model.heads import SOFT_HEAD_FILE
from embedder.model.pretrained import PreTrainedModel
from embedder.text.prompts import TOKENIZER_FILE, load_tokenizer
from embedder.training.card import CARD_FILE, write_card
from embedder.training.config import CONFIG_FILE, TrainConfig
from embedder.training.model import TrainedModel

ADAPTER_FOLDER = "adapter"  # the folder inside a run for the published model


def published_folder(folder: Path) -> Path:
    """The folder with the weights of an earlier stage; of a run, its subfolder."""
    return folder if (folder / WEIGHTS_FILE).is_file() else folder / ADAPTER_FOLDER


def publish(
    model: TrainedModel,
    contract: Contract,
    config: TrainConfig,
    folder: Path,
    *,
    run: Path,
    files: Sequence[Path] = (),
) -> Path:
    """Saves adapter or whole model, then loads it as a user would and records its golden vectors.

    run: the folder with the run's log. files: the training files, for the card. Keeps an existing card.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONTRACT_FILE).unlink(missing_ok=True)
    if isinstance(model, PeftModel):
        contract = _save_adapter(model, contract, config, folder)
    else:
        contract = _save_whole(model, contract, folder)
    (folder / CONFIG_FILE).write_text(config.to_yaml(), encoding="utf-8")
    write_contract(folder, contract)
    notices = copy_notices(locate_model(contract.base), folder)
    write_card(folder, contract, config, run=run, files=files, notices=notices)
    return folder


def _save_adapter(model: PeftModel, contract: Contract, config: TrainConfig, folder: Path) -> Contract:
    card = folder / CARD_FILE
    kept = card.read_bytes() if card.is_file() else None
    model.save_pretrained(str(folder), safe_serialization=True, save_embedding_layers=False)
    card.unlink(missing_ok=True)  # PEFT writes an empty one
    if kept is not None:
        card.write_bytes(kept)
    _clean_adapter_config(folder, config.base)
    return dataclasses.replace(contract, adapter_files=hash_files(folder, (ADAPTER_FILES, TOKENIZER_FILE)))


def _save_whole(model: PreTrainedModel, contract: Contract, folder: Path) -> Contract:
    """Saves body and embedding through transformers, a soft head in a separate file, and the base's tokenizer."""
    base = locate_model(contract.base)
    head = getattr(model, "soft_head", None)
    # An encoder's own head was never trained, and loading it as a decoder does not need it.
    kept = {k: v for k, v in model.state_dict().items() if head is None or not k.startswith(("soft_head.", "cls."))}
    model.save_pretrained(str(folder), state_dict=kept)
    if head is not None:
        save_file(head.state_dict(), folder / SOFT_HEAD_FILE)
    load_tokenizer(base).save(str(folder / TOKENIZER_FILE))
    return dataclasses.replace(contract, base=".", base_files=hash_files(folder, ("*.safetensors", TOKENIZER_FILE)))


def _clean_adapter_config(folder: Path, base: str) -> None:
    """Replaces PEFT's local path of the base by the contract's name, which works on other machines."""
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = base
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
