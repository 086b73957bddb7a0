"""Weights of small modules, in files of their own beside an adapter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import nn


def save_module(module: nn.Module, path: Path, *, said: Mapping[str, str] | None = None) -> Path:
    """said: metadata of the file. Returns the file, which is never there by half."""
    temporary = path.with_name(f"{path.name}.tmp")
    weights = {name: tensor.contiguous() for name, tensor in module.state_dict().items()}
    save_file(weights, temporary, None if said is None else dict(said))
    return temporary.replace(path)
