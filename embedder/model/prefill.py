"""Forms batches of prompts and runs the prefill: padded through transformers, or packed through our decoder. A row's
result never depends on its batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from embedder.model.backbone import Backbone
from embedder.model.decoder import Decoder
from embedder.model.refine import Prefill, SoftVocabulary
from embedder.text.prompts import CONTEXT_SLOT, Frame

# For a shorter common prefix, copying keys costs as much as recomputing them.
_LEAST_SHARED = 8


@dataclass(frozen=True, slots=True)
class Prompt:
    """Padded prompts; pads may be on either side."""

    ids: Tensor  # (B, N)
    mask: Tensor  # (B, N) bool, True at real tokens


class PaddedPrefill:
    """Prefill through transformers: for training, which needs gradients and adapters, and for unsupported layouts."""

    def __init__(
        self,
        backbone: Backbone,
        prompt: Prompt,
        *,
        weights: Sequence[Sequence[float]] | None = None,
        contexts: Tensor | None = None,
    ) -> None:
        """weights: of each token's state in the mean, per prompt; None: uniform.

        contexts: the contextual token of each prompt (B, D), if its template has one.
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
        """States of all positions, including pads (B, N, D)."""
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

    @property
    def vocabulary(self) -> SoftVocabulary:
        return self._backbone


class PackedPrefill:
    """Prefill through `decoder`, without padding. Rows may come in any order."""

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
        like = backbone.embedding.weight
        device = like.device
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
        self._run = decoder.start(lengths, steps=steps, like=like, shared=shared, between_parts=between_parts)

    def read(self) -> tuple[Tensor, Tensor]:
        states = self._run.read(self._backbone.embed(self._tokens, self._contexts))  # (N, D)
        shared, own = states[: self._shared], states[self._shared :]
        last = own[self._own.cumsum(dim=0) - 1]
        rows = torch.repeat_interleave(torch.arange(len(self._own), device=states.device), self._own)
        if self._weights is not None:
            sums = torch.zeros_like(last, dtype=torch.float32).index_add_(0, rows, own.float() * self._weights[:, None])
            totals = torch.zeros_like(sums[:, 0]).index_add_(0, rows, self._weights)
            return self._in_given_order(last), self._in_given_order(sums / totals[:, None])
        sums = shared.float().sum(dim=0).expand(last.shape).contiguous().index_add_(0, rows, own.float())
        return self._in_given_order(last), self._in_given_order(sums / (self._own + self._shared)[:, None])

    def advance(self, inputs: Tensor) -> Tensor:
        return self._in_given_order(self._run.advance(inputs if self._order is None else inputs[self._order]))

    @property
    def vocabulary(self) -> SoftVocabulary:
        return self._decoder.vocabulary

    def _in_given_order(self, states: Tensor) -> Tensor:
        """Restores the caller's row order."""
        return states if self._order is None else torch.empty_like(states).index_copy_(0, self._order, states)


def _shared_tokens(ids: Sequence[Sequence[int]]) -> int:
    """Length of the common prefix, for instance an instruction; leaves at least one token of each row.

    Compares token ids, not text: a tokenizer may merge characters where instruction and text meet.
    """
    first, most = ids[0], min(len(each) for each in ids) - 1
    # Contextual tokens differ between prompts, although their slots have the same id.
    count = next((at for at in range(most) if first[at] < 0 or any(each[at] != first[at] for each in ids)), most)
    return count if len(ids) > 1 and count >= _LEAST_SHARED else 0


PADDING_SIDES = ("left", "right")
BATCH_TOKENS = 8192  # padded prompt tokens per batch; bounds memory at any lengths


def plan_batches(lengths: Sequence[int], *, batch_size: int, max_tokens: int) -> Iterator[list[int]]:
    """Yields lists of row indices, longest first, so that an out-of-memory error comes early.

    A batch has at most `batch_size` rows and, padded, at most `max_tokens` tokens (but always one row).
    """
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        widest = lengths[batch[0]] if batch else lengths[row]
        if batch and (len(batch) == batch_size or widest * (len(batch) + 1) > max_tokens):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def split_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """One or two groups of row indices: two if separating short prompts saves a sixth of the padded tokens."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    whole = len(order) * lengths[order[0]]
    costs = {cut: cut * lengths[order[0]] + (len(order) - cut) * lengths[order[cut]] for cut in range(1, len(order))}
    cut = min(costs, key=lambda each: costs[each], default=0)
    return [order[:cut], order[cut:]] if costs and costs[cut] < whole * 5 / 6 else [order]


def pad(ids: Sequence[Sequence[int]], *, device: torch.device, side: str = "right") -> Prompt:
    """Pads id lists to the longest: ids (B, N) and mask (B, N). Pads are id 0 and are masked."""
    if side not in PADDING_SIDES:
        raise ValueError(f"side is {side!r}, but must be one of {PADDING_SIDES}.")
    width = max(len(row) for row in ids)
    padded = np.zeros((len(ids), width), dtype=np.int64)
    mask = np.zeros((len(ids), width), dtype=bool)
    for index, row in enumerate(ids):
        at = slice(width - len(row), width) if side == "left" else slice(0, len(row))
        padded[index, at] = row
        mask[index, at] = True
    return Prompt(on_device(torch.from_numpy(padded), device), on_device(torch.from_numpy(mask), device))


def on_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Moves a CPU tensor to `device`. Unlike a plain `to`, does not wait for the GPU to finish its work."""
    is_cuda = torch.device(device).type == "cuda"
    return tensor.pin_memory().to(device, non_blocking=True) if is_cuda else tensor.to(device)


def start_prefill(
    backbone: Backbone,
    prompts: Sequence[Sequence[int]],
    *,
    steps: int,
    pooling: str,
    frame: Frame,
    padding_side: str = "right",
    between_parts: Callable[[], None] | None = None,
) -> Prefill:
    """Packed if our decoder supports the model, else padded. Only the packed form on a CPU calls `between_parts`."""
    if backbone.decoder is not None:
        if backbone.embedding.weight.device.type != "cpu":
            between_parts = None  # kernels on a GPU are queued ahead, so interrupting gains nothing
        return PackedPrefill(
            backbone,
            backbone.decoder,
            prompts,
            steps=steps,
            weights=prompt_weights(pooling, prompts, frame),
            contexts=backbone.contexts_of(prompts),
            between_parts=between_parts,
        )
    side = "left" if backbone.has_windows else padding_side
    return padded_prefill(backbone, prompts, pooling=pooling, frame=frame, padding_side=side)


def padded_prefill(
    backbone: Backbone,
    prompts: Sequence[Sequence[int]],
    *,
    pooling: str,
    frame: Frame,
    padding_side: str = "right",
) -> PaddedPrefill:
    """Prefill through transformers' modules, with gradient if enabled."""
    return PaddedPrefill(
        backbone,
        pad(prompts, device=backbone.device, side=padding_side),
        weights=prompt_weights(pooling, prompts, frame),
        contexts=backbone.contexts_of(prompts),
    )


def prompt_weights(pooling: str, prompts: Sequence[Sequence[int]], frame: Frame) -> list[list[float]] | None:
    """The weight of each state in the prompt's mean, per prompt; None if uniform."""
    if pooling == "context_last":
        return [[float(each == CONTEXT_SLOT) for each in ids] for ids in prompts]
    lengths = [len(ids) for ids in prompts]
    if pooling == "prompt_weighted_mean":
        return [[float(place) for place in range(1, length + 1)] for length in lengths]
    if pooling == "prompt_copy_mean":
        return [[float(place in frame.second_copy(length)) for place in range(length)] for length in lengths]
    return None
