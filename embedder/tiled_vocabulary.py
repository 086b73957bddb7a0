"""The mean embedding of a soft token over a large vocabulary, a tile of entries at a time.

Neither the logits nor the probabilities of all entries ever exist at once: an online softmax keeps the largest logit,
the sum and the weighted sum of embeddings so far, and shrinks them where a larger logit comes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from embedder.weight_formats import Linear, Product, fastest_format

TILE = 16_384  # entries; 64 rows of a tile are 4 MB of logits in fp32


@dataclass(frozen=True, slots=True)
class Tile:
    entries: slice
    output_projection: Product  # (B, D) to the logits of its entries (B, n)
    input_projection: Product  # probabilities of its entries (B, n) to the weighted sum of their embeddings (B, D)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Head and embeddings of a vocabulary in pieces, each in the form that is fastest here."""

    parts: tuple[Tile, ...]
    dtype: torch.dtype  # of the embeddings, and of their mean

    def logits(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, n), over all entries: for those who want to see them."""
        return torch.cat([tile.output_projection(x) for tile in self.parts], dim=-1)

    def input_projection(self, soft_token: Tensor) -> Tensor:
        """s @ E: (B, n) -> (B, D)."""
        mixed = torch.stack([tile.input_projection(soft_token[:, tile.entries]).float() for tile in self.parts])
        return mixed.sum(dim=0).to(self.dtype)

    def mean(self, x: Tensor, temperature: float, logit_bias: Tensor | None) -> Tensor:
        """softmax(logits / temperature + logit_bias) @ E: (B, D) -> (B, D)."""
        peak = x.new_full((x.shape[0], 1), -torch.inf, dtype=torch.float32)
        total = torch.zeros_like(peak)
        mixed = torch.zeros_like(x, dtype=torch.float32)
        for tile in self.parts:
            logits = tile.output_projection(x).float() / temperature  # (B, n)
            if logit_bias is not None:
                logits += logit_bias[tile.entries]
            higher = torch.maximum(peak, logits.amax(dim=1, keepdim=True))
            base = higher.masked_fill(higher == -torch.inf, 0)  # -inf - -inf is not a number
            shrink, weights = (peak - base).exp(), logits.sub_(base).exp_()
            total = total * shrink + weights.sum(dim=1, keepdim=True)
            mixed = mixed * shrink + tile.input_projection(weights).float()
            peak = higher
        return (mixed / total).to(self.dtype)


def cut(head: Linear, embedding: Tensor, *, size: int = TILE) -> Tiles:
    """head: of the n entries of a soft token; embedding: their rows of E (n, D)."""
    parts = []
    for start in range(0, embedding.shape[0], size):
        entries = slice(start, start + size)
        bias = None if head.bias is None else head.bias[entries]
        output_projection = fastest_format(Linear(head.weight[entries], bias, head.has_gelu))
        parts.append(Tile(entries, output_projection, fastest_format(Linear(embedding[entries].T, None))))
    return Tiles(tuple(parts), embedding.dtype)
