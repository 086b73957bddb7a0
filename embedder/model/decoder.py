"""Encodes prompts and advances them position by position, without padding, copies or repeated work.

All rows of a batch form one sequence of tokens, so that matrix products contain no padding at any lengths; only
attention separates the rows, one group per length. Keys and values lie in one block with room for all steps.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional as F

from embedder.model.layouts import Layer, Layout
from embedder.model.vocabulary import Vocabulary

# The operating system maps a large block page by page at first access: for keys and values of 64 texts of 128 tokens,
# this takes longer than writing them. So the largest released blocks are kept for the next batch.
_MOST_BLOCKS = 2  # an engine computes two batches in parallel
MOST_BYTES = 256 * 2**20  # larger blocks are freed; 8,192 tokens of gircse-mini take 151 MB


_ALL: weakref.WeakSet[SpareMemory] = weakref.WeakSet()


def release_spare_memory() -> None:
    """Frees the spare memory of all models in the process; call it after a large job."""
    for each in list(_ALL):
        each.release()


class SpareMemory:
    """One reusable block per concurrent run. Thread-safe."""

    def __init__(self) -> None:
        self._blocks: list[Tensor] = []  # bytes (n,), largest last
        self._lock = threading.Lock()
        _ALL.add(self)

    def release(self) -> None:
        """Frees the blocks."""
        with self._lock:
            self._blocks.clear()

    def take(self, shape: Sequence[int], dtype: torch.dtype, *, owner: object) -> Tensor:
        """An uninitialised CPU tensor. Its memory is reused once `owner` is garbage-collected; do not use the tensor
        after that."""
        size = math.prod(shape) * dtype.itemsize
        with self._lock:
            block = self._blocks.pop() if self._blocks else None
        if block is None or len(block) < size:
            with torch.inference_mode(False):  # a tensor made in inference mode cannot be written to outside it
                block = torch.empty(size, dtype=torch.uint8)
        weakref.finalize(owner, self._give_back, block)
        return block[:size].view(dtype).view(tuple(shape))

    def _give_back(self, block: Tensor) -> None:
        if len(block) > MOST_BYTES:
            return
        with self._lock:
            self._blocks = sorted([*self._blocks, block], key=len)[-_MOST_BLOCKS:]


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Adjacent rows of one length."""

    rows: slice
    tokens: slice  # their range in the sequence of all rows
    count: int
    length: int


class Decoder:
    """Computes a body of a known layout. Has no per-run state."""

    def __init__(self, layout: Layout, vocabulary: Vocabulary | None, *, is_bidirectional: bool) -> None:
        self._layout = layout
        self._vocabulary = vocabulary  # None for an encoder that generates nothing
        self._is_bidirectional = is_bidirectional  # within a prompt
        # Whether a common prefix can be computed once for all rows: not if it attends to later positions.
        self.can_share = not is_bidirectional
        self._spare = SpareMemory()

    def with_attention(self, *, is_bidirectional: bool) -> Decoder:
        """The same weights with another attention within prompts."""
        return Decoder(self._layout, self._vocabulary, is_bidirectional=is_bidirectional)

    @property
    def vocabulary(self) -> Vocabulary:
        if self._vocabulary is None:
            raise ValueError("The model has no head, so it cannot compute soft tokens.")
        return self._vocabulary

    def start(
        self,
        lengths: Sequence[int],
        *,
        steps: int,
        like: Tensor,
        shared: int = 0,
        between_parts: Callable[[], None] | None = None,
    ) -> KVCacheSession:
        """Starts a run over rows of these lengths, longest first, with room for `steps` more positions each.

        shared: number of tokens in the common prefix of all rows, less than the shortest length. between_parts: called
        after each attention and feed-forward part; it may compute another run.
        """
        return KVCacheSession(
            self._layout,
            list(lengths),
            steps=steps,
            shared=shared,
            is_bidirectional=self._is_bidirectional,
            like=like,
            spare=self._spare,
            between_parts=between_parts,
        )


@dataclass(slots=True, weakref_slot=True, eq=False)
class KVCacheSession:
    """The keys and values of one batch during prefill and refinement."""

    layout: Layout
    lengths: list[int]
    steps: int
    shared: int
    is_bidirectional: bool
    like: Tensor
    spare: SpareMemory
    between_parts: Callable[[], None] | None = None
    _keys: Tensor = field(init=False)  # (layers, B, key_heads, longest + steps, head_size)
    _values: Tensor = field(init=False)
    _mask: Tensor | None = field(init=False)  # 0 or -inf (B, longest + steps); None if all rows have the same length
    _taken: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        layout, longest = self.layout, self.lengths[0]
        shape = (2, len(layout.layers), len(self.lengths), layout.key_heads, longest + self.steps, layout.head_size)
        if self.like.device.type == "cpu":
            # Attention is fastest in float32 here, and only the few keys and values are stored in it.
            self._keys, self._values = self.spare.take(shape, torch.float32, owner=self)
        else:
            self._keys, self._values = self.like.new_empty(shape)
        self._mask = None
        shortest = self.lengths[-1]
        if shortest < longest:
            # Right-aligned: prompts end where the steps begin; a mask hides the positions before a shorter one.
            self._keys[..., : longest - shortest, :] = 0
            self._values[..., : longest - shortest, :] = 0
            places = torch.arange(longest + self.steps, device=self.like.device)
            starts = longest - torch.tensor(self.lengths, device=self.like.device)
            self._mask = self._keys.new_zeros(len(self.lengths), longest + self.steps)
            self._mask.masked_fill_(places < starts[:, None], -torch.inf)

    def read(self, inputs: Tensor) -> Tensor:
        """The prefill. Takes embeddings of the shared tokens, then of all rows' other tokens, row by row (N, D).

        Returns their final states (N, D).
        """
        shared, longest = self.shared, self.lengths[0]
        groups = _group([each - shared for each in self.lengths], first_token=shared)
        starts_ends = [(0, shared), *((shared, each) for each in self.lengths)]
        positions = torch.cat([torch.arange(*each, device=inputs.device) for each in starts_ends])
        relative = self.layout.relative

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            window = self.layout.layers[layer].window
            out = torch.empty_like(q)
            queries, *before = (each[None, :shared].transpose(1, 2) for each in (q, k, v))  # (1, heads, shared, size)
            if shared:
                out[:shared] = self._attend(queries, *before, window=window)[0].transpose(0, 1)
            for group in groups:
                shape = (group.count, group.length, -1, q.shape[-1])
                queries, *own = (each[group.tokens].view(shape).transpose(1, 2) for each in (q, k, v))
                keys, values = (
                    (_prepend_shared(one, other) for one, other in zip(before, own, strict=True)) if shared else own
                )
                if self.steps:
                    places = slice(longest - keys.shape[2], longest)
                    self._keys[layer, group.rows, :, places] = keys
                    self._values[layer, group.rows, :, places] = values
                bias = None if relative is None else relative.bias(group.length, q.dtype)
                attended = self._attend(queries, keys, values, window=window, mask=bias)
                out[group.tokens] = attended.transpose(1, 2).reshape(-1, *q.shape[1:])
            return out

        return self._forward(inputs, positions, attend)

    def _attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, *, window: int | None, mask: Tensor | None = None
    ) -> Tensor:
        """Attention within prompts: queries (rows, heads, n, size) of the last n positions; keys and values of all.

        mask: (heads, n, n), added before the softmax, if prompts attend both ways.
        """
        before = keys.shape[2] - queries.shape[2]
        # Bidirectional attention ignores windows, as in transformers when the mask admits all positions.
        is_cut = window is not None and keys.shape[2] > window and not self.is_bidirectional
        if before or is_cut:
            mask = torch.ones(queries.shape[2], keys.shape[2], dtype=torch.bool, device=keys.device).tril(before)
            if window is not None and is_cut:
                mask = mask.triu(before - window + 1)
        return F.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=mask,
            is_causal=not self.is_bidirectional and mask is None,
            scale=self.layout.scaling,
            enable_gqa=keys.shape[1] != queries.shape[1],
        )

    def advance(self, inputs: Tensor) -> Tensor:
        """Advances every row by one position: inputs (B, D) to final states (B, D)."""
        at = self.lengths[0] + self._taken
        positions = torch.tensor([each + self._taken for each in self.lengths], device=inputs.device)
        mask = None if self._mask is None else self._mask[:, None, None, : at + 1]
        layers = self.layout.layers

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self._keys[layer, :, :, at] = k
            self._values[layer, :, :, at] = v
            window = layers[layer].window
            seen = slice(0 if window is None else max(0, at + 1 - window), at + 1)  # prompts end where the steps begin
            keys, values = self._keys[layer, :, :, seen], self._values[layer, :, :, seen]
            # Query heads that share a key are rows of one product.
            queries = q.reshape(q.shape[0], k.shape[1], -1, q.shape[-1])
            hidden = None if mask is None else mask[..., seen]
            return _attend_once(queries, keys, values, hidden, self.layout.scaling).reshape(q.shape)

        self._taken += 1
        return self._forward(inputs, positions, attend)

    def _forward(self, x: Tensor, positions: Tensor, attend) -> Tensor:
        layout = self.layout
        angles = layout.angles(x, positions)
        x = layout.enter(x.float(), positions)
        for index, layer in enumerate(layout.layers):
            if layout.is_norm_first:
                attended = self._attention(index, layer, layer.attention_norm(x), angles[layer.angles], attend)
                x = x + (attended if layer.attention_end_norm is None else layer.attention_end_norm(attended))
                if self.between_parts is not None:
                    self.between_parts()
                fed = layout.feed(layer, layer.feed_norm(x))
                x = x + (fed if layer.feed_end_norm is None else layer.feed_end_norm(fed))
            else:
                x = layer.attention_norm(x + self._attention(index, layer, x, angles[layer.angles], attend))
                if self.between_parts is not None:
                    self.between_parts()
                x = layer.feed_norm(x + layout.feed(layer, x))
            if self.between_parts is not None:
                self.between_parts()
        return x if layout.final_norm is None else layout.final_norm(x)

    def _attention(self, index: int, layer: Layer, x: Tensor, angles, attend) -> Tensor:
        layout = self.layout
        sizes = [layout.heads, layout.key_heads, layout.key_heads]
        q, k, v = layer.qkv(x).view(x.shape[0], -1, layout.head_size).split(sizes, dim=1)  # (N, heads, head_size)
        if layer.query_norm is not None:
            q = layer.query_norm(q)
        if layer.key_norm is not None:
            k = layer.key_norm(k)
        if angles is not None:
            q, k = _rotated(q, *angles), _rotated(k, *angles)
        q, k = q.to(v.dtype), k.to(v.dtype)
        return layer.out(attend(index, q, k, v).flatten(1))


def _attend_once(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scaling: float) -> Tensor:
    """Attention of one position per row: (B, key_heads, queries per key, head_size)."""
    if q.device.type != "cpu":
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=scaling)
    # torch's fused CPU kernel is made for long queries: for many rows of one query it takes three times as long.
    q = q.to(keys.dtype) * scaling
    scores = q @ keys.transpose(2, 3)
    if mask is not None:
        scores = scores.add_(mask)
    return torch.softmax(scores, dim=-1) @ values


def _prepend_shared(shared: Tensor, own: Tensor) -> Tensor:
    """Prepends the shared keys or values (1, heads, shared, size) to every row's own (rows, heads, length, size)."""
    return torch.cat([shared.expand(len(own), -1, -1, -1), own], dim=2)


def _group(lengths: Sequence[int], *, first_token: int) -> list[RowGroup]:
    groups: list[RowGroup] = []
    row, token = 0, first_token
    for length, equal in groupby(lengths):
        count = len(list(equal))
        groups.append(RowGroup(slice(row, row + count), slice(token, token + count * length), count, length))
        row, token = row + count, token + count * length
    return groups


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin
