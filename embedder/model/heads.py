"""Small modules that are trained from scratch beside a model, and saved whole with its adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

# The names by which adapters save them.
TRAINED_WHOLE = ("soft_head", "context_projection")
SOFT_HEAD_FILE = "soft_head.safetensors"  # of a model that was trained whole; an adapter holds its own


class SoftHead(nn.Module):
    """Lets a masked-language encoder (BERT layout) speak soft tokens: projects a state onto the tied vocabulary, and
    marks generated positions.

    logits = LayerNorm(h + W2·gelu(W1·h)) @ E[pieces]ᵀ + bias. PEFT saves modules and not bare parameters, so pieces,
    transform, bias and the learned vector that is added to every soft token's embedding live in this one module; E is
    never saved.

    pieces: the token ids (n,) that a soft token is made of. Leaving out what no person reads as a word costs nothing
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
    """Causal2Vec's C = gelu(h W1ᵀ) W2ᵀ (Lin et al. 2025, Eq 1): states of an encoder (B, k) to embeddings (B, D)."""

    def __init__(self, encoder_size: int, hidden_size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(encoder_size, hidden_size, bias=False)
        self.outer = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        return self.outer(F.gelu(self.inner(states)))


def attach_context_projection(model: Any, encoder_size: int) -> None:
    """An untrained one, in fp32, under the name that adapters save it by."""
    model.context_projection = ContextProjection(encoder_size, model.config.hidden_size)


def attach_soft_head(model: Any, base: Path, pieces: Tensor | None) -> None:
    """An untrained head of these token ids; None takes the trained one that lies in `base`, or where there is none an
    untrained one over the whole vocabulary."""
    trained = load_file(base / SOFT_HEAD_FILE) if pieces is None and (base / SOFT_HEAD_FILE).is_file() else {}
    if pieces is None:
        pieces = trained.get("pieces", torch.arange(model.config.vocab_size))
    model.soft_head = SoftHead(model.config.hidden_size, pieces)
    if trained:
        model.soft_head.load_state_dict(trained)
