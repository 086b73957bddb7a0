"""From a state to a soft token and on to the next input: the two products with the vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor, nn

from embedder.heads import SoftHead
from embedder.layouts import norm_of
from embedder.linear import Linear, Product, linear_of


@dataclass(frozen=True, slots=True)
class Vocabulary:
    enter: Callable[[Tensor], Tensor] | None  # what a soft head makes of a state (B, D) before it is projected
    project: Product  # (B, D) to logits (B, n)
    mix: Product  # a soft token (B, n) to the mean of its embeddings (B, D)
    position: Tensor | None  # what a soft head adds to it (D,)

    def logits(self, state: Tensor) -> Tensor:
        return self.project(state if self.enter is None else self.enter(state))

    def embed_soft(self, soft_token: Tensor) -> Tensor:
        mixed = self.mix(soft_token)
        return mixed if self.position is None else mixed + self.position


def build_vocabulary(
    *, head: nn.Module, soft_head: SoftHead | None, soft_weight: Tensor, form: Callable[[Product], Product]
) -> Vocabulary:
    """soft_weight: the rows of E that a soft token mixes (n, D). form: what the weights are kept in."""
    mix = form(Linear(soft_weight.T, None))
    if soft_head is None:
        return Vocabulary(None, form(linear_of(head)) if isinstance(head, nn.Linear) else head, mix, None)
    inner = form(replace(linear_of(soft_head.inner), has_gelu=True))
    outer, norm = form(linear_of(soft_head.outer)), norm_of(soft_head.norm)
    project = form(Linear(soft_weight, soft_head.bias.detach()))
    return Vocabulary(
        lambda state: norm(state + outer(inner(state))), project, mix, soft_head.position.detach().float()
    )
