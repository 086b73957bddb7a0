"""From a state to a soft token and on to the next input: the two products with the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from embedder.heads import SoftHead
from embedder.linear import Linear, Product, kept, linear_of


@dataclass(frozen=True, slots=True)
class Vocabulary:
    soft_head: SoftHead | None
    inner: Product | None  # of the soft head, with its activation
    outer: Product | None
    project: Product  # a state, or what the soft head makes of it (B, D), to logits (B, n)
    mix: Product  # a soft token (B, n) to the mean of its embeddings (B, D)
    dtype: torch.dtype

    def logits(self, state: Tensor) -> Tensor:
        if self.soft_head is None or self.inner is None or self.outer is None:
            return self.project(state)
        return self.project(self.soft_head.norm(state + self.outer(self.inner(state))))

    def embed_soft(self, soft_token: Tensor) -> Tensor:
        mixed = self.mix(soft_token.to(self.dtype))
        return mixed if self.soft_head is None else mixed + self.soft_head.position


def build_vocabulary(*, head: nn.Module, soft_head: SoftHead | None, soft_weight: Tensor) -> Vocabulary:
    """soft_weight: the rows of E that a soft token mixes (n, D)."""
    mix = kept(Linear(soft_weight.T, None))
    if soft_head is None:
        project = linear_of(head) if isinstance(head, nn.Linear) else head
        return Vocabulary(None, None, None, kept(project), mix, soft_weight.dtype)
    return Vocabulary(
        soft_head,
        inner=kept(replace(linear_of(soft_head.inner), has_gelu=True)),
        outer=kept(linear_of(soft_head.outer)),
        project=kept(Linear(soft_weight, soft_head.bias.detach())),
        mix=mix,
        dtype=soft_weight.dtype,
    )
