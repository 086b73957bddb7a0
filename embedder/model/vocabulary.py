"""Computes a soft token from a state, and the next input from it: as two products with the vocabulary if someone
observes the soft token, fused otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from embedder.model.heads import SoftHead
from embedder.model.layouts import norm_of
from embedder.model.refine import softmax_over_vocabulary
from embedder.model.weight_formats import Linear, Product, fastest_format, linear_of

TILE = 16_384  # entries; 64 rows of a tile are 4 MB of logits in fp32


@dataclass(frozen=True, slots=True)
class Tile:
    entries: slice
    output_projection: Product  # (B, D) to the logits of its entries (B, n)
    input_projection: Product  # probabilities of its entries (B, n) to the weighted sum of their embeddings (B, D)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Head and embeddings of a vocabulary in tiles, each in the fastest format for this processor."""

    parts: tuple[Tile, ...]
    dtype: torch.dtype  # of the embeddings and of their mean

    def logits(self, x: Tensor) -> Tensor:
        """Logits of all entries, (B, D) -> (B, n), for observers."""
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
            base = higher.masked_fill(higher == -torch.inf, 0)  # avoids -inf - -inf, which is NaN
            shrink, weights = (peak - base).exp(), logits.sub_(base).exp_()
            total = total * shrink + weights.sum(dim=1, keepdim=True)
            mixed = mixed * shrink + tile.input_projection(weights).float()
            peak = higher
        return (mixed / total).to(self.dtype)


def cut(head: Linear, embedding: Tensor, *, size: int = TILE) -> Tiles:
    """Cuts the vocabulary into tiles. head: maps to the n entries of a soft token. embedding: their rows of E (n,
    D)."""
    parts = []
    for start in range(0, embedding.shape[0], size):
        entries = slice(start, start + size)
        bias = None if head.bias is None else head.bias[entries]
        output_projection = fastest_format(Linear(head.weight[entries], bias, head.has_gelu))
        parts.append(Tile(entries, output_projection, fastest_format(Linear(embedding[entries].T, None))))
    return Tiles(tuple(parts), embedding.dtype)


MOST_TAIL = 0.01  # of the probability, on all other entries


@dataclass(frozen=True, slots=True)
class TopEntries:
    """Mixes only the `count` most probable rows of E. Soft tokens with a heavier tail use all rows.

    The omitted tail moves the mean by at most twice the tail times the largest norm of a row of E.
    """

    embedding: Tensor  # (n, D)
    count: int
    whole: Product  # over all entries
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


# Maps states (B, D), temperature and logit bias (n,) or None to softmax(logits / temperature + bias) @ E (B, D).
Mean = Callable[[Tensor, float, Tensor | None], Tensor]
# With more entries, a CPU does not materialise the soft token. A GPU does: docs/gpu-and-flops.md. gircse-mini has
# 10,000 entries, a large language model 152,000.
LARGE = 32_768


@dataclass(frozen=True, slots=True)
class Vocabulary:
    transform: Callable[[Tensor], Tensor] | None  # the soft head's transform of a state (B, D) before the projection
    output_projection: Product  # (B, D) to logits (B, n)
    input_projection: Product  # a soft token (B, n) to the mean of its embeddings (B, D)
    position: Tensor | None  # the soft head's vector, added to inputs (D,)
    mean: Mean | None = None  # fused projection and mean; None: compute through the soft token
    scale: float = 1.0  # of the mean, if the family scales embeddings

    def logits(self, state: Tensor) -> Tensor:
        return self.output_projection(state if self.transform is None else self.transform(state))

    def embed_soft(self, soft_token: Tensor) -> Tensor:
        return self._placed(self.input_projection(soft_token))

    def next_inputs(self, state: Tensor, *, temperature: float, logit_bias: Tensor | None) -> Tensor:
        """embed_soft of the soft token of `state` (B, D), without returning the soft token: (B, D)."""
        if self.mean is None:
            return self.embed_soft(
                softmax_over_vocabulary(self.logits(state), temperature=temperature, logit_bias=logit_bias)
            )
        entered = state if self.transform is None else self.transform(state)
        return self._placed(self.mean(entered, temperature, logit_bias))

    def _placed(self, mixed: Tensor) -> Tensor:
        scaled = mixed if self.scale == 1.0 else mixed * self.scale
        return scaled if self.position is None else scaled + self.position


def build_vocabulary(
    *,
    head: nn.Module,
    soft_head: SoftHead | None,
    soft_weight: Tensor,
    weight_format: Callable[[Product], Product] = fastest_format,
    scale: float = 1.0,
    large: int = LARGE,
    top_entries: int | None = None,
) -> Vocabulary:
    """Builds the products. soft_weight: rows of E that a soft token mixes (n, D). weight_format: for everything except
    tiles. scale: of the mean.

    top_entries: mix this many entries of a soft token if they have nearly all of the probability.
    """
    vocabulary = replace(_build(head, soft_head, soft_weight, weight_format, large), scale=scale)
    if top_entries is None:
        return vocabulary
    return replace(
        vocabulary, input_projection=TopEntries(soft_weight, top_entries, vocabulary.input_projection), mean=None
    )


def _build(
    head: nn.Module,
    soft_head: SoftHead | None,
    soft_weight: Tensor,
    weight_format: Callable[[Product], Product],
    large: int,
) -> Vocabulary:
    if soft_head is not None:
        inner = weight_format(replace(linear_of(soft_head.inner), has_gelu=True))
        outer, norm = weight_format(linear_of(soft_head.outer)), norm_of(soft_head.norm)
        vocabulary = _over(Linear(soft_weight, soft_head.bias.detach()), soft_weight, weight_format, large)
        return replace(
            vocabulary,
            transform=lambda state: norm(state + outer(inner(state))),
            position=soft_head.position.detach().float(),
        )
    if isinstance(head, nn.Linear):
        return _over(linear_of(head), soft_weight, weight_format, large)
    return Vocabulary(None, head, weight_format(Linear(soft_weight.T, None)), None)


def _over(head: Linear, embedding: Tensor, weight_format: Callable[[Product], Product], large: int) -> Vocabulary:
    """Builds the products over n entries. head: maps to the entries of a soft token. embedding: their rows (n, D)."""
    if embedding.shape[0] > large and embedding.device.type == "cpu":
        tiles = cut(head, embedding)
        return Vocabulary(None, tiles.logits, tiles.input_projection, None, tiles.mean)
    return Vocabulary(None, weight_format(head), weight_format(Linear(embedding.T, None)), None)
