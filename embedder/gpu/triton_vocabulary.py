"""The mean embedding of a soft token in two launches of Triton: logits, softmax and mean in one read of the weights.

Imported on CUDA only, where Triton is there. Tested in Triton's interpreter; its speed has not been measured on a card.
"""

from __future__ import annotations

from subprocess import SubprocessError

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.errors import TritonError

# One block of rows takes all rows, so that every weight is read once, and tied weights once for both products.
MOST_ROWS = 64
_PROGRAMS_PER_PROCESSOR = 2
_LEAST_ROWS = 16  # of a matrix product of Triton
# What a launch may raise: the kernel does not compile or fit, its launcher finds no C compiler, the card refuses.
LAUNCH_ERRORS = (TritonError, RuntimeError, OSError, SubprocessError)


@triton.jit
def _tile_logits(
    states, head, at_rows, is_row, at, is_entry, width, WIDTH: tl.constexpr, PRECISION: tl.constexpr
):  # (ROWS, ENTRIES) fp32
    logits = tl.zeros((at_rows.shape[0], at.shape[0]), tl.float32)
    for start in range(0, width, WIDTH):
        columns = start + tl.arange(0, WIDTH)
        is_column = columns < width
        x = tl.load(states + at_rows[:, None] * width + columns[None, :], mask=is_row & is_column[None, :], other=0)
        weights = tl.load(
            head + at[None, :] * width + columns[:, None], mask=is_entry[None, :] & is_column[:, None], other=0
        )
        logits = tl.dot(x, weights, logits, input_precision=PRECISION)
    return logits


@triton.jit
def _add_tile(
    sums, embedding, chances, shrink, at_rows, is_row, at, is_entry, width, is_first,
    WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # sums = sums * shrink + chances @ embedding, a piece of their width at a time  # fmt: skip
    for start in range(0, width, WIDTH):
        columns = start + tl.arange(0, WIDTH)
        is_column = (columns < width)[None, :]
        vectors = tl.load(
            embedding + at[:, None] * width + columns[None, :], mask=is_entry[:, None] & is_column, other=0
        )
        place = sums + at_rows[:, None] * width + columns[None, :]
        before = tl.load(place, mask=is_row & is_column & (is_first == 0), other=0)
        found = tl.dot(chances, vectors, before * shrink[:, None], input_precision=PRECISION)
        tl.store(place, found, mask=is_row & is_column)
    tl.debug_barrier()  # other threads of this program will read what these wrote


@triton.jit(do_not_specialize=["rows"])  # else it would be compiled anew for 1 row and for 16
def _mix_tiles(
    states,  # (B, D), in the weights' dtype
    head,  # (n, D)
    embedding,  # (n, D)
    bias,  # (n,) fp32, added to the scaled logits
    sums,  # (splits, B, D) fp32: weighted sums of embeddings
    peaks,  # (splits, B) fp32: largest logits
    totals,  # (splits, B) fp32: sums of weights
    rows,
    entries,
    width,
    tiles_each,
    scale,
    HAS_BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    ENTRIES: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """An online softmax over the tiles of one split. The running sum lies in memory, where the cache holds it: 3,584
    numbers for each of 16 rows would fill all registers."""
    split = tl.program_id(0).to(tl.int64)
    at_rows = tl.arange(0, ROWS)
    is_row = (at_rows < rows)[:, None]
    sums += split * rows * width
    peak = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for tile in range(tiles_each):
        at = (split * tiles_each + tile) * ENTRIES + tl.arange(0, ENTRIES)  # int64, as n · D may pass 2³¹
        is_entry = at < entries
        logits = scale * _tile_logits(states, head, at_rows, is_row, at, is_entry, width, WIDTH, PRECISION)
        if HAS_BIAS:
            logits += tl.load(bias + at, mask=is_entry, other=0)[None, :]
        logits = tl.where(is_entry[None, :], logits, float("-inf"))
        higher = tl.maximum(peak, tl.max(logits, axis=1))
        base = tl.where(higher == float("-inf"), 0.0, higher)  # -inf - -inf is not a number
        shrink = tl.exp(peak - base)
        chances = tl.exp(logits - base[:, None])
        total = total * shrink + tl.sum(chances, axis=1)
        peak = higher
        chances = chances.to(embedding.dtype.element_ty)
        _add_tile(
            sums, embedding, chances, shrink, at_rows, is_row, at, is_entry, width, tile == 0, WIDTH, PRECISION
        )  # fmt: skip
    tl.store(peaks + split * rows + at_rows, peak, mask=at_rows < rows)
    tl.store(totals + split * rows + at_rows, total, mask=at_rows < rows)


@triton.jit(do_not_specialize=["rows"])
def _join_splits(sums, peaks, totals, out, rows, width, splits, SPLITS: tl.constexpr, WIDTH: tl.constexpr):
    """The mean of one row, a piece of its width: all splits' sums under one softmax."""
    row = tl.program_id(0)
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    is_column = columns < width
    all_splits = tl.arange(0, SPLITS)
    is_split = all_splits < splits
    peak = tl.load(peaks + all_splits * rows + row, mask=is_split, other=float("-inf"))
    highest = tl.max(peak, axis=0)
    total = tl.sum(tl.exp(peak - highest) * tl.load(totals + all_splits * rows + row, mask=is_split, other=0), axis=0)
    mixed = tl.zeros((WIDTH,), tl.float32)
    for split in range(splits):
        share = tl.exp(tl.load(peaks + split * rows + row) - highest)
        place = sums + (split * rows + row) * width + columns
        mixed += share * tl.load(place, mask=is_column, other=0)
    tl.store(out + row * width + columns, mixed / total, mask=is_column)


def mean_embedding(
    states: Tensor, head: Tensor, embedding: Tensor, bias: Tensor | None, *, scale: float, processors: int
) -> Tensor:
    """softmax(scale · states @ headᵀ + bias) @ embedding: (B, D) -> (B, D), in the embeddings' dtype.

    head, embedding: (n, D) of one dtype, may be the same. bias: fp32 (n,). processors: how many the device has; each
    gets some splits of the entries to itself, so that one row fills the card too.
    """
    (rows, width), entries = states.shape, embedding.shape[0]
    # What two stages of loads take of shared memory fits the 99 KB of small cards.
    tile, piece = (128, 32) if embedding.dtype == torch.float32 else (256, 64)
    tiles = triton.cdiv(entries, tile)
    tiles_each = triton.cdiv(tiles, _PROGRAMS_PER_PROCESSOR * processors)
    splits = triton.cdiv(tiles, tiles_each)
    sums = torch.empty(splits, rows, width, dtype=torch.float32, device=states.device)
    peaks, totals = torch.empty(2, splits, rows, dtype=torch.float32, device=states.device)
    out = torch.empty(rows, width, dtype=embedding.dtype, device=states.device)
    with torch.cuda.device_of(states):  # Triton starts kernels on the current device
        _mix_tiles[(splits,)](
            states.to(embedding.dtype).contiguous(),
            head,
            embedding,
            peaks if bias is None else bias,
            sums,
            peaks,
            totals,
            rows,
            entries,
            width,
            tiles_each,
            scale,
            HAS_BIAS=bias is not None,
            ROWS=max(_LEAST_ROWS, triton.next_power_of_2(rows)),
            ENTRIES=tile,
            WIDTH=piece,
            PRECISION="ieee",
            num_warps=8,
            num_stages=2,
        )
        _join_splits[(rows, triton.cdiv(width, 128))](
            sums, peaks, totals, out, rows, width, splits, SPLITS=triton.next_power_of_2(splits), WIDTH=128
        )
    return out
