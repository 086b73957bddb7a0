"""Loads an encoder without a head (BERT or MPNet layout) for serving; it encodes prompts and generates nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from embedder.errors import ContractError
from embedder.model.adapter import merge_adapter
from embedder.model.backbone import DTYPES, Backbone, copy_of_layers
from embedder.model.bert import load_bert
from embedder.model.decoder import Decoder
from embedder.model.layouts import read_layout, with_products
from embedder.model.mpnet import load_mpnet
from embedder.model.weight_formats import fastest_format, in_int8


def load_bare_encoder(base: Path, *, adapter: Path | None, device: str, dtype: str) -> Backbone:
    """Loads an encoder without a head, of BERT or MPNet layout.

    Raises ContractError for another layout.
    """
    loaded = load_bert(base) or load_mpnet(base)
    if loaded is None:
        raise ContractError(f"{base} is not an encoder of BERT or MPNet layout, so it cannot run without a head.")
    if adapter is None:
        backbone = _bare_encoder(loaded, device=device, dtype=dtype)
        return replace(backbone, base=backbone)
    alone = copy_of_layers(loaded)
    merge_adapter(loaded.base_model, adapter)
    return replace(
        _bare_encoder(loaded, device=device, dtype=dtype), base=_bare_encoder(alone, device=device, dtype=dtype)
    )


def _bare_encoder(loaded: nn.Module, *, device: str, dtype: str) -> Backbone:
    model: Any = loaded.to(device=device, dtype=DTYPES[dtype]).eval().requires_grad_(False)
    backbone = Backbone(
        model=model,
        body=model.base_model,
        embedding=model.get_input_embeddings(),
        head=nn.Identity(),
        soft_head=None,
        attention="prefix",
        soft_weight=model.get_input_embeddings().weight,
    )
    layout = with_products(read_layout(model), in_int8 if dtype == "int8" else fastest_format)
    return replace(backbone, decoder=Decoder(layout, None, is_bidirectional=True))
