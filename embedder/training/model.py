"""Builds the trained model (LoRA or all weights), its teacher, and the learning rates of its parts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from embedder.errors import DataError
from embedder.model.adapter import WEIGHTS_FILE
from embedder.model.backbone import DTYPES, Backbone, split_model
from embedder.model.causal_model import load_causal_model
from embedder.model.heads import SOFT_HEAD_FILE, TRAINED_WHOLE, attach_context_projection
from embedder.model.peft_adapter import lora_config
from embedder.model.pretrained import PreTrainedModel
from embedder.training.bare_encoder import bare_encoder, load_bare_model
from embedder.training.config import CHECKPOINTING_REFUSED, TrainConfig

TrainedModel = PreTrainedModel | PeftModel


def build_student(
    base: Path, config: TrainConfig, pieces: Tensor, device: torch.device, *, context_size: int | None = None
) -> TrainedModel:
    """The base, with requires_grad set on its trained parameters.

    pieces: token ids of a soft head. context_size: dimension of the states that are projected to a contextual token.
    """
    soft = config.head == "soft_head"
    # Frozen weights may use bfloat16; trained ones stay float32, and autocast computes in bfloat16.
    small = config.precision == "bf16" and config.tuning == "lora" and not soft
    model = _load(base, config, pieces=pieces, dtype=DTYPES["bfloat16" if small else "float32"])
    if context_size is not None:
        attach_context_projection(model, context_size)
    if config.tuning != "full":
        return _with_lora(model, config).to(device)
    model.requires_grad_(True)
    if soft:
        # The soft head uses a copy of E's rows. If E were trained, its output and input rows would diverge.
        model.get_input_embeddings().requires_grad_(False)
    return model.eval().to(device)  # turns off the base's own dropout


def _with_lora(model: Any, config: TrainConfig) -> PeftModel:
    adapted = get_peft_model(
        model, lora_config(model, rank=config.lora_rank, alpha=config.lora_alpha, dropout=config.lora_dropout)
    ).eval()
    for layer in adapted.modules():
        if isinstance(layer, LoraLayer):
            layer.lora_dropout.train()  # only LoRA's dropout is active
    if config.tuning == "head":
        for name, parameter in adapted.named_parameters():
            parameter.requires_grad_("soft_head" in name and parameter.requires_grad)
    return adapted


def base_of(model: TrainedModel) -> PreTrainedModel:
    """The model inside an adapter, including the adapter's layers."""
    return model.get_base_model() if isinstance(model, PeftModel) else model  # type: ignore[return-value]


def build_teacher(base: Path, config: TrainConfig, device: torch.device) -> Backbone | None:
    """The frozen base, if a loss term or the false-negative mask needs it; else None."""
    if not config.distillation_weight and config.false_negative_margin is None:
        return None
    dtype = torch.bfloat16 if config.precision == "bf16" and device.type == "cuda" else torch.float32
    model = _load(base, config)
    return parts_of(model.to(device, dtype).eval().requires_grad_(False), config)


def _load(base: Path, config: TrainConfig, *, pieces: Tensor | None = None, dtype: torch.dtype = torch.float32) -> Any:
    """The base with the configured head."""
    if config.head == "none":
        return load_bare_model(base, dtype=dtype)
    return load_causal_model(base, with_soft_head=config.head == "soft_head", pieces=pieces, dtype=dtype)


def parts_of(model: Any, config: TrainConfig) -> Backbone:
    """The model split into body, embedding and its configured head."""
    return bare_encoder(model) if config.head == "none" else split_model(model, attention=config.attention)


def trained_parameters(model: TrainedModel) -> dict[str, Tensor]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


@torch.no_grad()
def load_parameters(model: TrainedModel, values: Mapping[str, Tensor]) -> None:
    """Copies the values into the model's parameters. Raises KeyError for a name that the model does not have."""
    named = dict(model.named_parameters())
    for name, value in values.items():
        named[name].copy_(value)


def load_adapter(model: PeftModel, folder: Path) -> bool:
    """Loads the weights of a published adapter. Returns whether they included a soft head.

    An encoder's layers have the same names with and without a head, except for a prefix. Raises DataError if shapes
    differ.
    """
    prefix = f"{base_of(model).base_model_prefix}."

    def place(name: str) -> str:
        for part in (".modules_to_save", ".default"):
            name = name.replace(part, "")
        return name.removeprefix("base_model.model.").removeprefix(prefix)

    values = {place(name): value for name, value in load_file(folder / WEIGHTS_FILE).items()}
    adapted = {place(name): each for name, each in model.named_parameters() if ".default." in name}
    has_head = any(name.startswith("soft_head.") for name in values)
    selected = {name: each for name, each in adapted.items() if has_head or not name.startswith("soft_head.")}
    shapes = {name: tuple(value.shape) for name, value in values.items() if not name.endswith(".pieces")}
    if unlike := set(shapes.items()) ^ {(name, tuple(each.shape)) for name, each in selected.items()}:
        name, shape = min(unlike)
        raise DataError(
            f"The adapter in {folder} does not match this run: only one of them has {name} {shape}. Give the run "
            "the adapter's base and lora_rank."
        )
    with torch.no_grad():
        for name, parameter in selected.items():
            parameter.copy_(values[name])
    return has_head


def soft_token_pieces(folder: Path) -> Tensor | None:
    """Token ids of a published model's soft tokens, which a further stage must keep; None without a soft head.

    Raises DataError if the folder has no published weights.
    """
    files = [path for path in (folder / "adapter_model.safetensors", folder / SOFT_HEAD_FILE) if path.is_file()]
    for path in files:
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if name.split(".")[-1] == "pieces"]  # noqa: SIM118  # no mapping
            if names:
                return file.get_tensor(names[0])
    if not files and not any(folder.glob("*.safetensors")):
        raise DataError(f"{folder} has no weights. Finish the earlier stage first.")
    return None


def parameter_groups(model: TrainedModel, config: TrainConfig) -> list[dict]:
    """A soft head and a context projection are trained from scratch, so they have their own learning rate."""
    trained = trained_parameters(model)
    new = {name for name in trained if any(module in name for module in TRAINED_WHOLE)}
    body = [parameter for name, parameter in trained.items() if name not in new]
    head = [parameter for name, parameter in trained.items() if name in new]
    groups = [{"params": body, "lr": config.learning_rate}]
    return [*groups, {"params": head, "lr": config.head_learning_rate}] if head else groups


def learning_rate_factor(config: TrainConfig, step: int) -> float:
    """Linear warm-up, then cosine down to a tenth."""
    warm = max(1, round(config.warmup * config.optimiser_steps))
    if step < warm:
        return (step + 1) / warm
    share = (step - warm) / max(1, config.optimiser_steps - warm)
    return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))


def refuse_gradient_checkpointing(model: TrainedModel) -> None:
    """Raises ValueError: checkpointed layers drop the KV cache, and the gradient would be silently wrong."""
    if any(getattr(layer, "gradient_checkpointing", False) for layer in model.modules()):
        raise ValueError(f"{CHECKPOINTING_REFUSED}.")
