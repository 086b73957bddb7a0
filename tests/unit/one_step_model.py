"""A model of one step whose readings mean something: gircse-small without its soft head."""

import json
from pathlib import Path

from safetensors.torch import load_file, save_file

from embedder.checkpoint import find_checkpoint
from embedder.model.adapter import CONFIG_FILE, WEIGHTS_FILE
from embedder.model.contract import CONTRACT_FILE, hash_files


def save_one_step_model(folder: Path) -> Path:
    """The encoder that gircse-small was made of, in `folder`."""
    shipped = find_checkpoint("gircse-small").adapter
    folder.mkdir(exist_ok=True)
    weights = load_file(shipped / WEIGHTS_FILE)
    layers = {name.replace("model.bert.", "model."): each for name, each in weights.items() if ".lora_" in name}
    save_file(layers, folder / WEIGHTS_FILE)
    config = json.loads((shipped / CONFIG_FILE).read_text(encoding="utf-8")) | {"modules_to_save": None}
    (folder / CONFIG_FILE).write_text(json.dumps(config))
    contract = json.loads((shipped / CONTRACT_FILE).read_text(encoding="utf-8"))
    contract |= {"name": "one-step", "head": "none", "pooling": "prompt_mean", "default_query_steps": 1, "golden": []}
    contract["adapter_files"] = hash_files(folder)
    contract.pop("selection_files", None)  # it reads texts whole
    (folder / CONTRACT_FILE).write_text(json.dumps(contract))
    return folder
