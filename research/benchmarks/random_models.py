"""Decoders of the shapes of well-known models, with random weights: for what depends on shapes alone (speed, FLOPs,
memory), without a download."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, BertConfig, MistralConfig, PretrainedConfig, Qwen2Config

from embedder.model.backbone import Backbone, split_model, with_decoder
from embedder.model.decoder import Decoder
from embedder.model.heads import attach_soft_head
from embedder.model.layouts import read_layout
from embedder.model.vocabulary import build_vocabulary

_SOFT_ENTRIES = 10_000  # of a soft token of gircse-mini
# As the config.json of each base model on the hub has it.
SHAPES: dict[str, PretrainedConfig] = {
    "tiny": Qwen2Config(
        vocab_size=1024,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    ),
    "qwen2.5-0.5b": Qwen2Config(
        vocab_size=151_936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    ),
    "qwen2.5-1.5b": Qwen2Config(
        vocab_size=151_936,
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    ),
    "gircse-mini": BertConfig(  # with room for long texts, which the model itself lacks
        vocab_size=30_522,
        hidden_size=384,
        intermediate_size=1536,
        num_hidden_layers=6,
        num_attention_heads=12,
        max_position_embeddings=1024,
        is_decoder=True,
    ),
    "qwen2.5-7b": Qwen2Config(
        vocab_size=152_064,
        hidden_size=3584,
        intermediate_size=18_944,
        num_hidden_layers=28,
        num_attention_heads=28,
        num_key_value_heads=4,
        tie_word_embeddings=False,
    ),
    "mistral-7b": MistralConfig(
        vocab_size=32_000,
        hidden_size=4096,
        intermediate_size=14_336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        sliding_window=None,
        tie_word_embeddings=False,
    ),
}


def random_model(shape: str, *, device: str, dtype: torch.dtype):
    torch.manual_seed(0)
    with torch.device(device):
        return AutoModelForCausalLM.from_config(SHAPES[shape], dtype=dtype).eval().requires_grad_(False)


def random_backbone(shape: str, *, device: str, dtype: torch.dtype) -> Backbone:
    """Read as a served model is."""
    model = random_model(shape, device=device, dtype=dtype)
    is_bert = isinstance(SHAPES[shape], BertConfig)
    if is_bert:
        attach_soft_head(model, Path(), torch.arange(_SOFT_ENTRIES))
        model = model.to(device, dtype).requires_grad_(False)
    backbone = with_decoder(split_model(model, attention="prefix" if is_bert else "causal"))
    if backbone.decoder is None:
        raise RuntimeError(f"Our decoder does not give what transformers' modules give for {shape} on {device}.")
    return backbone


def shape_alone(shape: str) -> tuple[Decoder, Tensor]:
    """A decoder without numbers, on torch's meta device, and its E."""
    model = random_model(shape, device="meta", dtype=torch.bfloat16)
    weight = model.get_input_embeddings().weight
    vocabulary = build_vocabulary(head=model.get_output_embeddings(), soft_head=None, soft_weight=weight)
    return Decoder(read_layout(model), vocabulary, is_bidirectional=False), weight
