"""Writes a trained adapter as others load it: PEFT files, contract with hashes and golden vectors, the config."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from peft import PeftModel

from embedder.checkpoint import load_encoder
from embedder.contract import CONTRACT_FILE, Contract, Golden, hash_files
from embedder.training.config import TrainConfig

_GOLDEN_TEXTS = (
    ("Rivers carry sand and clay towards the sea.", "", 5),
    ("Please move my appointment to Thursday afternoon.", "Represent the intention of this text.", 20),
)
_GOLDEN_NUMBERS = 16


def publish(model: PeftModel, contract: Contract, config: TrainConfig, folder: Path) -> Path:
    """Saves the adapter, then loads it as a user would and writes down what it gives."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONTRACT_FILE).unlink(missing_ok=True)
    model.save_pretrained(str(folder), safe_serialization=True, save_embedding_layers=False)
    (folder / "README.md").unlink(missing_ok=True)  # PEFT's empty model card; ours is written by hand
    _clean_adapter_config(folder, config.base)
    (folder / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    contract = dataclasses.replace(contract, adapter_files=hash_files(folder))
    (folder / CONTRACT_FILE).write_text(contract.to_json(), encoding="utf-8")
    encoder = load_encoder(str(folder), device="cpu")
    golden = tuple(
        Golden(
            text,
            instruction,
            steps,
            tuple(
                round(float(x), 6)
                for x in encoder.refine(text, instruction=instruction, steps=steps).vector[:_GOLDEN_NUMBERS]
            ),
        )
        for text, instruction, steps in _GOLDEN_TEXTS
    )
    (folder / CONTRACT_FILE).write_text(dataclasses.replace(contract, golden=golden).to_json(), encoding="utf-8")
    return folder


def _clean_adapter_config(folder: Path, base: str) -> None:
    """PEFT notes where the base lay on this machine; the contract's name is what others need."""
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = base
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
