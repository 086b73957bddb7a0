"""Everything that needs PEFT: trainable adapters, and merging adapters of kinds that only PEFT supports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn

from embedder.model.causal_model import loading_quietly
from embedder.model.heads import TRAINED_WHOLE
from embedder.model.pretrained import PreTrainedModel


def merge_with_peft(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """Merges layer by layer in float32, whatever the layers' dtype."""
    with loading_quietly():
        adapted: Any = PeftModel.from_pretrained(model, str(folder), is_trainable=False)
    layer: nn.Module
    for layer in adapted.modules():
        if isinstance(layer, BaseTunerLayer):
            base_layer = layer.get_base_layer()
            dtype = next(base_layer.parameters()).dtype
            layer.to(torch.float32)
            layer.merge(safe_merge=True)
            base_layer.to(dtype)
    return adapted.unload()


def lora_config(model: PreTrainedModel, *, rank: int, alpha: int, dropout: float) -> LoraConfig:
    """LoRA on every linear layer of the body; modules trained from scratch are saved in full."""
    head_parts = ("cls", "lm_head", *TRAINED_WHOLE)
    targets = sorted(
        name
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and name.split(".")[0] not in head_parts
    )
    return LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=targets,
        modules_to_save=[name for name in TRAINED_WHOLE if hasattr(model, name)] or None,
        task_type=None,
    )
