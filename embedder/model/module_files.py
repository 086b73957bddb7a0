"""Saves the weights of small modules in separate files beside an adapter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import nn


def save_module(module: nn.Module, path: Path, *, metadata: Mapping[str, str] | None = None) -> Path:
    """Saves the weights atomically as safetensors and returns `path`. metadata: of the file."""
    temporary = path.with_name(f"{path.name}.tmp")
    weights = {name: tensor.contiguous() for name, tensor in module.state_dict().items()}
    save_file(weights, temporary, None if metadata is None else dict(metadata))
    return temporary.replace(path)
