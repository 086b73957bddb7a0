"""Loads the weights of an MPNet model by the names in its file, for `layouts`. Like BERT (`bert`), plus a learned
attention bias per relative distance in every layer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import nn

from embedder.model.bert import empty_embedding, load_modules, modules_of, output_block

_BODY = "mpnet."  # prefix of names in files that include a head
_UNREAD = ("pooler.", "lm_head.", "embeddings.position_ids")
_REQUIRED = {"model_type": ("mpnet",), "hidden_act": ("gelu",)}


class MPNetModules(nn.Module):
    """Names as in transformers' MPNetModel. Only holds weights; a `Decoder` computes with them."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.config = config
        self.mpnet = modules_of(
            embeddings=modules_of(
                word_embeddings=empty_embedding(config.vocab_size, config.hidden_size),
                position_embeddings=empty_embedding(config.max_position_embeddings, config.hidden_size),
                LayerNorm=nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps),
            ),
            encoder=modules_of(
                layer=nn.ModuleList([_layer(config) for _ in range(config.num_hidden_layers)]),
                relative_attention_bias=empty_embedding(
                    config.relative_attention_num_buckets, config.num_attention_heads
                ),
            ),
        )
        body: Any = self.mpnet
        body.config = config

    @property
    def base_model(self) -> nn.Module:
        return self.mpnet

    def get_input_embeddings(self) -> nn.Embedding:
        return self.get_submodule("mpnet.embeddings.word_embeddings")  # type: ignore[return-value]

    def get_output_embeddings(self) -> None:
        """Returns None: the model has no language-model head."""


def load_mpnet(folder: Path) -> MPNetModules | None:
    """Loads float32 weights from safetensors. None if the model has another architecture or unsupported parts."""
    return load_modules(folder, MPNetModules, body=_BODY, unread=_UNREAD, required=_REQUIRED)


def _layer(config: SimpleNamespace) -> nn.Module:
    size = config.hidden_size
    parts = {name: nn.Linear(size, size) for name in ("q", "k", "v", "o")}
    attention = modules_of(attn=modules_of(**parts), LayerNorm=nn.LayerNorm(size, eps=config.layer_norm_eps))
    return modules_of(
        attention=attention,
        intermediate=modules_of(dense=nn.Linear(size, config.intermediate_size)),
        output=output_block(config.intermediate_size, size, config),
    )
