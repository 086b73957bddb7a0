"""Reads weights, and saves those of small modules in separate files beside an adapter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor, nn


def save_module(module: nn.Module, path: Path, *, metadata: Mapping[str, str] | None = None) -> Path:
    """Saves the weights atomically as safetensors and returns `path`. metadata: of the file."""
    temporary = path.with_name(f"{path.name}.tmp")
    weights = {name: tensor.contiguous() for name, tensor in module.state_dict().items()}
    save_file(weights, temporary, None if metadata is None else dict(metadata))
    return temporary.replace(path)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The weights of a safetensors file in memory of their own. `load_file` maps the file, so that one that is
    overwritten later would change the model.
    """
    return {name: tensor.clone() for name, tensor in load_file(path).items()}


def unmap(module: nn.Module) -> None:
    """Copies weights that transformers may have mapped from a file; see `read_weights`."""
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.data = tensor.data.clone()
