"""From a state to a soft token and on to the next input: the two products with the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from embedder.heads import SoftHead
from embedder.linear import Linear, Product, kept


@dataclass(frozen=True, slots=True)
class Vocabulary:
    soft_head: SoftHead | None
    project: Product  # a state, or what the soft head makes of it (B, D), to logits (B, n)
    mix: Product  # a soft token (B, n) to the mean of its embeddings (B, D)
    dtype: torch.dtype

    def logits(self, state: Tensor) -> Tensor:
        return self.project(state if self.soft_head is None else self.soft_head.transform(state))

    def embed_soft(self, soft_token: Tensor) -> Tensor:
        mixed = self.mix(soft_token.to(self.dtype))
        return mixed if self.soft_head is None else mixed + self.soft_head.position


def build_vocabulary(*, head: nn.Module, soft_head: SoftHead | None, soft_weight: Tensor) -> Vocabulary:
    """soft_weight: the rows of E that a soft token mixes (n, D)."""
    if soft_head is not None:
        project = Linear(soft_weight, soft_head.bias.detach())
    elif isinstance(head, nn.Linear):
        project = Linear(head.weight.detach(), None if head.bias is None else head.bias.detach())
    else:
        return Vocabulary(None, head, Linear(soft_weight.T, None), soft_weight.dtype)
    return Vocabulary(soft_head, kept(project), kept(Linear(soft_weight.T, None)), soft_weight.dtype)
