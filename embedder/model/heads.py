"""Small modules trained from scratch with a model, and saved in full with its adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from embedder.model.module_files import read_weights

# Their names in adapter files.
TRAINED_WHOLE = ("soft_head", "context_projection")
SOFT_HEAD_FILE = "soft_head.safetensors"  # for a fully trained model; an adapter contains its own


class SoftHead(nn.Module):
    """Lets a masked-language encoder (BERT layout) generate soft tokens: projects a state onto the tied vocabulary, and
    marks generated positions.

    logits = LayerNorm(h + W2·gelu(W1·h)) @ E[pieces]ᵀ + bias. Pieces, transform, bias and the learned vector added to
    every soft token's embedding are in one module, because PEFT saves modules but not bare parameters. E is never
    saved.

    pieces: the token ids (n,) of a soft token's entries. Omitting pieces that are not readable words costs no quality
    and makes every step cheaper.
    """

    pieces: Tensor

    def __init__(self, hidden_size: int, pieces: Tensor) -> None:
        super().__init__()
        self.register_buffer("pieces", pieces)
        self.inner = nn.Linear(hidden_size, hidden_size)
        self.outer = nn.Linear(hidden_size, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        self.bias = nn.Parameter(torch.zeros(len(pieces)))
        self.position = nn.Parameter(torch.zeros(hidden_size))

    def forward(self, state: Tensor, embedding: Tensor) -> Tensor:
        """state (B, D), embedding E[pieces] (n, D) -> logits (B, n)."""
        transformed = self.norm(state + self.outer(F.gelu(self.inner(state))))
        return F.linear(transformed, embedding, self.bias)


class ContextProjection(nn.Module):
    """Causal2Vec's C = gelu(h W1ᵀ) W2ᵀ (Lin et al. 2025, Eq 1): encoder states (B, k) to embeddings (B, D)."""

    def __init__(self, encoder_size: int, hidden_size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(encoder_size, hidden_size, bias=False)
        self.outer = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        return self.outer(F.gelu(self.inner(states)))


def attach_context_projection(model: Any, encoder_size: int) -> None:
    """Attaches an untrained projection, in float32, under the name used in adapters."""
    model.context_projection = ContextProjection(encoder_size, model.config.hidden_size)


def attach_soft_head(model: Any, base: Path, pieces: Tensor | None) -> None:
    """Attaches an untrained head with these token ids. None: the trained head in `base`, or else an untrained one over
    the whole vocabulary."""
    trained = read_weights(base / SOFT_HEAD_FILE) if pieces is None and (base / SOFT_HEAD_FILE).is_file() else {}
    if pieces is None:
        pieces = trained.get("pieces", torch.arange(model.config.vocab_size))
    model.soft_head = SoftHead(model.config.hidden_size, pieces)
    if trained:
        model.soft_head.load_state_dict(trained)
