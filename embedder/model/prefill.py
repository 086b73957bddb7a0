"""The two ways to read prompts: padded through transformers' own modules, or packed through ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from embedder.model.backbone import Backbone
from embedder.model.decoder import Decoder
from embedder.model.refine import softmax_over_vocabulary

# Of fewer tokens that all prompts begin with, copying the keys costs as much as reading them again.
_LEAST_SHARED = 8


@dataclass(frozen=True, slots=True)
class Prompt:
    """Padded prompts; pads may stand on either side."""

    ids: Tensor  # (B, N)
    mask: Tensor  # (B, N) bool, True at real tokens


class PaddedPrefill:
    """Through transformers: for training, where gradients and adapters are needed, and for bodies of other layouts."""

    def __init__(
        self,
        backbone: Backbone,
        prompt: Prompt,
        *,
        weights: Sequence[Sequence[float]] | None = None,
        contexts: Tensor | None = None,
    ) -> None:
        """weights: of each token's state in the mean, prompt by prompt; None: all the same.

        contexts: the contextual token of each prompt (B, D), where its template has one.
        """
        self._backbone = backbone
        self._ids = prompt.ids
        self._mask = prompt.mask
        self._next = prompt.mask.sum(dim=1)  # (B,)
        self._weights = prompt.mask.to(torch.float32)  # (B, N)
        if weights is not None:
            flat = [each for row in weights for each in row]
            self._weights[prompt.mask] = torch.tensor(flat, device=prompt.mask.device)
        self._contexts = contexts
        self._cache = backbone.new_cache()

    def read_states(self) -> Tensor:
        """Those of all places, pads among them (B, N, D)."""
        positions = (self._mask.long().cumsum(dim=1) - 1).clamp_min(0)
        inputs = self._backbone.embed(self._ids, self._contexts)
        return self._backbone.forward(inputs, mask=self._mask, positions=positions, cache=self._cache)

    def read(self) -> tuple[Tensor, Tensor]:
        mask = self._mask
        states = self.read_states()
        rows = torch.arange(mask.shape[0], device=mask.device)
        last = mask.shape[1] - 1 - mask.flip(1).long().argmax(dim=1)
        weights = self._weights.unsqueeze(-1)
        return states[rows, last], (states.float() * weights).sum(dim=1) / weights.sum(dim=1)

    def advance(self, inputs: Tensor) -> Tensor:
        self._mask = torch.cat([self._mask, self._mask.new_ones(self._mask.shape[0], 1)], dim=1)
        states = self._backbone.forward(
            inputs[:, None, :], mask=self._mask, positions=self._next[:, None], cache=self._cache
        )
        self._next = self._next + 1
        return states[:, -1]

    def logits(self, state: Tensor) -> Tensor:
        return self._backbone.logits(state)

    def embed_soft(self, soft_token: Tensor) -> Tensor:
        return self._backbone.embed_soft(soft_token)

    def next_inputs(self, state: Tensor, *, temperature: float, logit_bias: Tensor | None) -> Tensor:
        return self.embed_soft(
            softmax_over_vocabulary(self.logits(state), temperature=temperature, logit_bias=logit_bias)
        )


class PackedPrefill:
    """Through `decoder`, without pads. Rows may come in any order."""

    def __init__(
        self,
        backbone: Backbone,
        decoder: Decoder,
        ids: Sequence[Sequence[int]],
        *,
        steps: int,
        weights: Sequence[Sequence[float]] | None = None,
        contexts: Tensor | None = None,
        between_parts: Callable[[], None] | None = None,
    ) -> None:
        order = sorted(range(len(ids)), key=lambda row: -len(ids[row]))
        device = backbone.device
        shared = _shared_tokens(ids) if decoder.can_share and weights is None else 0
        lengths = [len(ids[row]) for row in order]
        tokens = [*ids[0][:shared], *(token for row in order for token in ids[row][shared:])]
        self._shared = shared
        self._own = torch.tensor(lengths, device=device) - shared
        self._tokens = torch.tensor(tokens, device=device)
        flat = None if weights is None else [each for row in order for each in weights[row]]
        self._weights = None if flat is None else torch.tensor(flat, device=device)  # (N,)
        is_sorted = order == list(range(len(ids)))
        self._order = None if is_sorted else torch.tensor(order, device=device)
        self._contexts = contexts if contexts is None or is_sorted else contexts[self._order]
        self._backbone = backbone
        self._decoder = decoder
        self._run = decoder.start(
            lengths, steps=steps, like=backbone.weight, shared=shared, between_parts=between_parts
        )

    def read(self) -> tuple[Tensor, Tensor]:
        states = self._run.read(self._backbone.embed(self._tokens, self._contexts))  # (N, D)
        shared, own = states[: self._shared], states[self._shared :]
        last = own[self._own.cumsum(dim=0) - 1]
        rows = torch.repeat_interleave(torch.arange(len(self._own), device=states.device), self._own)
        if self._weights is not None:
            sums = torch.zeros_like(last, dtype=torch.float32).index_add_(0, rows, own.float() * self._weights[:, None])
            totals = torch.zeros_like(sums[:, 0]).index_add_(0, rows, self._weights)
            return self._given(last), self._given(sums / totals[:, None])
        sums = shared.float().sum(dim=0).expand(last.shape).contiguous().index_add_(0, rows, own.float())
        return self._given(last), self._given(sums / (self._own + self._shared)[:, None])

    def advance(self, inputs: Tensor) -> Tensor:
        return self._given(self._run.advance(inputs if self._order is None else inputs[self._order]))

    def logits(self, state: Tensor) -> Tensor:
        return self._decoder.vocabulary.logits(state)

    def embed_soft(self, soft_token: Tensor) -> Tensor:
        return self._decoder.vocabulary.embed_soft(soft_token)

    def next_inputs(self, state: Tensor, *, temperature: float, logit_bias: Tensor | None) -> Tensor:
        return self._decoder.vocabulary.next_inputs(state, temperature=temperature, logit_bias=logit_bias)

    def _given(self, states: Tensor) -> Tensor:
        """In the order that the rows came in."""
        return states if self._order is None else torch.empty_like(states).index_copy_(0, self._order, states)


def _shared_tokens(ids: Sequence[Sequence[int]]) -> int:
    """How many tokens all begin with alike, an instruction for instance; of each at least one is left.

    Token ids are compared, not text: where instruction and text meet, a tokenizer may join characters of both.
    """
    first, most = ids[0], min(len(each) for each in ids) - 1
    # A contextual token is another in every prompt, whose slots look alike.
    count = next((at for at in range(most) if first[at] < 0 or any(each[at] != first[at] for each in ids)), most)
    return count if len(ids) > 1 and count >= _LEAST_SHARED else 0
