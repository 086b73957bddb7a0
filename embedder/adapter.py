"""Merges an adapter into its base. Plain LoRA takes a few lines; PEFT, slow to import, merges every other kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from embedder.errors import ContractError
from embedder.pretrained import PreTrainedModel

WEIGHTS_FILE, CONFIG_FILE = "adapter_model.safetensors", "adapter_config.json"

_PREFIX = "base_model.model."
_A, _B = ".lora_A.weight", ".lora_B.weight"
_HEAD = "soft_head."
# What adapter_config.json may say of plain LoRA: W + alpha / r · BA, and a soft head saved whole.
_PLAIN: Mapping[str, tuple[object, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "init_lora_weights": (True, False, "gaussian"),  # others change the base, too
    "modules_to_save": (None, [], ["soft_head"]),
}
_UNSET: tuple[object, ...] = (None, False, [], {})
# Says how it was trained or which layers it has, which their names in the file say as well.
_NO_MATTER = {
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


def merge_adapter(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """`model` with the adapter in `folder` folded into its weights, computed in fp32: merging in bf16 drifts."""
    config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    weights = {name.removeprefix(_PREFIX): tensor for name, tensor in load_file(folder / WEIGHTS_FILE).items()}
    if not _is_plain_lora(config, weights, model):
        merged: PreTrainedModel = import_module("embedder.peft_adapter").merge_with_peft(model, folder)
        return merged
    try:
        _fold(model, weights, scaling=config["lora_alpha"] / config["r"])
    except (AttributeError, KeyError, RuntimeError) as error:
        raise ContractError(f"The adapter in {folder} does not fit its base: {error}. Get both again.") from error
    return model


def _is_plain_lora(config: Mapping[str, Any], weights: Mapping[str, Tensor], model: nn.Module) -> bool:
    others = {name for name, layer in model.named_modules() if type(layer) is not nn.Linear}
    are_plain_weights = all(
        name.startswith(_HEAD) or (name.endswith((_A, _B)) and name[: -len(_A)] not in others) for name in weights
    )
    return are_plain_weights and all(
        value in _PLAIN.get(entry, _UNSET) for entry, value in config.items() if entry not in _NO_MATTER
    )


@torch.no_grad()
def _fold(model: nn.Module, weights: Mapping[str, Tensor], *, scaling: float) -> None:
    for name, a in weights.items():
        if name.endswith(_A):
            layer = name.removesuffix(_A)
            weight = model.get_parameter(f"{layer}.weight")
            weight.copy_(weight.float() + scaling * (weights[layer + _B].float() @ a.float()))
    head = {name.removeprefix(_HEAD): tensor for name, tensor in weights.items() if name.startswith(_HEAD)}
    if head:
        model.get_submodule("soft_head").load_state_dict(head)
