"""Trains an encoder without a head (BERT or MPNet layout), which encodes prompts and generates nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from embedder.model.backbone import Backbone
from embedder.model.causal_model import loading_quietly
from embedder.model.pretrained import AutoModel


@dataclass(frozen=True, slots=True)
class BareEncoder(Backbone):
    """Encodes whole prompts through transformers' modules, without a KV cache."""

    def new_cache(self) -> Any:
        return None

    def forward(self, inputs: Tensor, *, mask: Tensor, positions: Tensor, cache: Any) -> Tensor:
        """Final states (B, N, D) of prompts (B, N, D); positions start at 0."""
        del cache
        if self.model.config.model_type == "mpnet":  # the first rows of its position table are for pads
            positions = positions + self.model.config.pad_token_id + 1
        return self.body(inputs_embeds=inputs, attention_mask=mask.long(), position_ids=positions).last_hidden_state


def load_bare_model(base: Path, *, dtype: torch.dtype) -> nn.Module:
    with loading_quietly():
        model: nn.Module = AutoModel.from_pretrained(
            base, dtype=dtype, add_pooling_layer=False, use_safetensors=True, trust_remote_code=False
        )
    return model


def bare_encoder(model: Any) -> BareEncoder:
    embedding = model.get_input_embeddings()
    return BareEncoder(
        model=model,
        body=model,
        embedding=embedding,
        head=nn.Identity(),
        soft_head=None,
        attention="prefix",
        soft_weight=embedding.weight[:1],
    )
