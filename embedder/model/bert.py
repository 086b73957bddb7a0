"""Loads the weights of a BERT model by the names in its file, for `layouts`. transformers has these modules too, but
importing it takes longer than the rest of the start."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar

import torch
from torch import nn

from embedder.errors import ModelNotFoundError
from embedder.model.module_files import read_weights

_BODY = "bert."  # prefix of names in some files, and in adapters
_UNREAD = ("cls.", "pooler.", "embeddings.position_ids")  # another head, and position numbers
# Another value means parts that this module does not support.
_REQUIRED: dict[str, tuple[object, ...]] = {
    "model_type": ("bert",),
    "hidden_act": ("gelu",),
    "position_embedding_type": (None, "absolute"),
    "is_decoder": (None, False),
    "add_cross_attention": (None, False),
}


class HasBody(Protocol):
    @property
    def base_model(self) -> nn.Module: ...


Model = TypeVar("Model", bound=HasBody)


class BertModules(nn.Module):
    """Names as in transformers' BertLMHeadModel. Only holds weights; a `Decoder` computes with them."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.config = config
        self.bert = modules_of(
            embeddings=modules_of(
                word_embeddings=empty_embedding(config.vocab_size, config.hidden_size),
                position_embeddings=empty_embedding(config.max_position_embeddings, config.hidden_size),
                token_type_embeddings=empty_embedding(config.type_vocab_size, config.hidden_size),
                LayerNorm=nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps),
            ),
            encoder=modules_of(layer=nn.ModuleList([_layer(config) for _ in range(config.num_hidden_layers)])),
        )
        body: Any = self.bert
        body.config = config

    @property
    def base_model(self) -> nn.Module:
        return self.bert

    def get_input_embeddings(self) -> nn.Embedding:
        return self.get_submodule("bert.embeddings.word_embeddings")  # type: ignore[return-value]

    def get_output_embeddings(self) -> None:
        """Returns None: a soft head replaces the output embeddings."""


def load_bert(folder: Path) -> BertModules | None:
    """Loads float32 weights from safetensors. None if the model has another architecture or unsupported parts."""
    return load_modules(folder, BertModules, body=_BODY, unread=_UNREAD, required=_REQUIRED)


def load_modules(
    folder: Path,
    build: Callable[[SimpleNamespace], Model],
    *,
    body: str,
    unread: tuple[str, ...],
    required: Mapping[str, tuple[object, ...]],
) -> Model | None:
    """Builds a model and fills it from safetensors in `folder`. None if the architecture differs or has unsupported
    parts.

    body: prefix of names in some files. unread: prefixes of names to skip. required: allowed values of configuration
    fields.
    """
    config = read_model_config(folder)
    files = sorted(folder.glob("*.safetensors"))
    if len(files) != 1 or any(config.get(entry) not in allowed for entry, allowed in required.items()):
        return None
    try:
        with torch.device("meta"):  # replaced by the file's tensors
            model = build(SimpleNamespace(**config))
    except AttributeError:
        return None  # a missing entry means transformers' default
    weights = {
        name.removeprefix(body): tensor.float()
        for name, tensor in read_weights(files[0]).items()
        if not name.removeprefix(body).startswith(unread)
    }
    if {name: tensor.shape for name, tensor in weights.items()} != shapes_of(model.base_model):
        return None
    model.base_model.load_state_dict(weights, assign=True)
    return model


def read_model_config(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelNotFoundError(f"{folder / 'config.json'} cannot be read: {error}. Get the model again.") from error
    return found


def shapes_of(module: nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in module.state_dict().items()}


def _layer(config: SimpleNamespace) -> nn.Module:
    size = config.hidden_size
    attention = modules_of(query=nn.Linear(size, size), key=nn.Linear(size, size), value=nn.Linear(size, size))
    shape: Any = attention
    shape.num_attention_heads = config.num_attention_heads
    shape.attention_head_size = size // config.num_attention_heads
    shape.scaling = shape.attention_head_size**-0.5
    return modules_of(
        attention=modules_of(self=attention, output=output_block(size, size, config)),
        intermediate=modules_of(dense=nn.Linear(size, config.intermediate_size)),
        output=output_block(config.intermediate_size, size, config),
    )


def output_block(inputs: int, outputs: int, config: SimpleNamespace) -> nn.Module:
    return modules_of(dense=nn.Linear(inputs, outputs), LayerNorm=nn.LayerNorm(outputs, eps=config.layer_norm_eps))


def empty_embedding(rows: int, size: int) -> nn.Embedding:
    # Initialising on the meta device would import torch's compiler.
    return nn.Embedding.from_pretrained(torch.empty(rows, size))


def modules_of(**children: nn.Module) -> nn.Module:
    module = nn.Module()
    for name, child in children.items():
        module.add_module(name, child)
    return module
