"""The mean embedding of a soft token by its most probable entries alone, where these are nearly all of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from embedder.weight_formats import Product

MOST_TAIL = 0.01  # of the probability, on all other entries


@dataclass(frozen=True, slots=True)
class TopEntries:
    """Reads `count` rows of E instead of all. A row of soft tokens with a heavier tail is mixed whole.

    What is left out moves the mean by at most twice the tail times the largest norm of a row of E.
    """

    embedding: Tensor  # (n, D)
    count: int
    whole: Product  # of all entries
    most_tail: float = MOST_TAIL

    def __call__(self, soft_token: Tensor) -> Tensor:
        """s @ E: fp32 (B, n) -> (B, D)."""
        masses, entries = soft_token.topk(min(self.count, soft_token.shape[1]), dim=1)  # (B, count) each
        total = masses.sum(dim=1, keepdim=True)
        is_whole = (1 - total)[:, 0] > self.most_tail
        if bool(is_whole.all()):
            return self.whole(soft_token)
        weights = (masses / total).to(self.embedding.dtype)
        mixed = torch.bmm(weights[:, None], self.embedding[entries])[:, 0]
        if bool(is_whole.any()):
            mixed[is_whole] = self.whole(soft_token[is_whole]).to(mixed.dtype)
        return mixed
