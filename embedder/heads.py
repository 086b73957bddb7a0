"""The small trained head that lets a masked-language encoder (BERT layout) speak soft tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SoftHead(nn.Module):
    """Projects a state onto the tied vocabulary, and marks generated positions.

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
