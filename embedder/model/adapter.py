"""Merges an adapter into its base. Plain LoRA is done here; PEFT, slow to import, merges every other kind."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from embedder.errors import ContractError
from embedder.model.heads import TRAINED_WHOLE
from embedder.model.module_files import read_weights, unmap

WEIGHTS_FILE, CONFIG_FILE = "adapter_model.safetensors", "adapter_config.json"

_PREFIX = "base_model.model."
_A, _B = ".lora_A.weight", ".lora_B.weight"
_WHOLE = tuple(f"{name}." for name in TRAINED_WHOLE)
# The adapter_config.json of plain LoRA: W + alpha / r · BA, and a fully saved soft head.
_PLAIN: Mapping[str, tuple[object, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "init_lora_weights": (True, False, "gaussian"),  # other methods change the base too
    "modules_to_save": (None, [], *([name] for name in TRAINED_WHOLE), list(TRAINED_WHOLE)),
}
_UNSET: tuple[object, ...] = (None, False, [], {})
# Fields without effect here: training options, and layer lists that the file's tensor names repeat.
_WITHOUT_EFFECT = {
    "auto_mapping",
    "base_model_name_or_path",
    "exclude_modules",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "lora_alpha",
    "lora_dropout",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "r",
    "revision",
    "target_modules",
    "task_type",
}


def merge_adapter(model: nn.Module, folder: Path) -> nn.Module:
    """Folds the adapter in `folder` into the weights of `model`. Computes in float32: merging in bfloat16 loses
    precision."""
    config = _read_config(folder)
    weights = {name.removeprefix(_PREFIX): tensor for name, tensor in read_weights(folder / WEIGHTS_FILE).items()}
    others = {name for name, layer in model.named_modules() if type(layer) is not nn.Linear}
    if not _is_plain_config(config) or not all(_is_plain_weight(each, others) for each in weights):
        merged: nn.Module = import_module("embedder.model.peft_adapter").merge_with_peft(model, folder)
        unmap(merged)
        return merged
    try:
        _fold(model, weights, scaling=config["lora_alpha"] / config["r"])
    except (AttributeError, KeyError, RuntimeError) as error:
        raise ContractError(f"The adapter in {folder} does not fit its base: {error}. Get both again.") from error
    return model


def is_plain_lora(folder: Path) -> bool:
    """Whether the adapter can be merged without PEFT, if all adapted layers are plain linear ones."""
    with safe_open(folder / WEIGHTS_FILE, framework="pt") as file:
        names = [name.removeprefix(_PREFIX) for name in file.keys()]  # noqa: SIM118
    return _is_plain_config(_read_config(folder)) and all(_is_plain_weight(each, set()) for each in names)


def _read_config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    return config


def _is_plain_config(config: Mapping[str, Any]) -> bool:
    return all(value in _PLAIN.get(entry, _UNSET) for entry, value in config.items() if entry not in _WITHOUT_EFFECT)


def _is_plain_weight(name: str, others: Collection[str]) -> bool:
    """Whether PEFT is not needed: a weight of a fully saved module, or LoRA of a linear layer.

    others: the layers that are not linear.
    """
    return name.startswith(_WHOLE) or (name.endswith((_A, _B)) and name[: -len(_A)] not in others)


@torch.no_grad()
def _fold(model: nn.Module, weights: Mapping[str, Tensor], *, scaling: float) -> None:
    for name, a in weights.items():
        if name.endswith(_A):
            layer = name.removesuffix(_A)
            weight = model.get_parameter(f"{layer}.weight")
            weight.copy_(weight.float() + scaling * (weights[layer + _B].float() @ a.float()))
    for prefix in _WHOLE:
        own = {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
        module = prefix.removesuffix(".")
        if own or (module == "context_projection" and hasattr(model, module)):  # only the adapter has these weights
            model.get_submodule(module).load_state_dict(own)
