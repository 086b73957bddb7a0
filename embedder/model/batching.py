"""Groups prompts of similar length under a token budget and pads them. What a row means never depends on its batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from embedder.model.prefill import Prompt

PADDING_SIDES = ("left", "right")
BATCH_TOKENS = 8192  # padded prompt tokens per batch; bounds memory whatever the lengths


def plan_batches(lengths: Sequence[int], *, batch_size: int, max_tokens: int) -> Iterator[list[int]]:
    """Yields lists of row indices, longest first, so that an out-of-memory error comes at once and not at the end.

    A batch holds at most `batch_size` rows and, padded, at most `max_tokens` tokens (but always one row).
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
    """One or two groups of row indices: two where reading short prompts apart saves a sixth of the padded tokens."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    whole = len(order) * lengths[order[0]]
    costs = {cut: cut * lengths[order[0]] + (len(order) - cut) * lengths[order[cut]] for cut in range(1, len(order))}
    cut = min(costs, key=lambda each: costs[each], default=0)
    return [order[:cut], order[cut:]] if costs and costs[cut] < whole * 5 / 6 else [order]


def pad(ids: Sequence[Sequence[int]], *, device: torch.device, side: str = "right") -> Prompt:
    """Pads id lists to the longest: ids (B, N) and mask (B, N). Pads are id 0 and are never attended to."""
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
    """A tensor of the CPU's on `device`. A GPU need not finish its work first, as a plain `to` asks."""
    is_cuda = torch.device(device).type == "cuda"
    return tensor.pin_memory().to(device, non_blocking=True) if is_cuda else tensor.to(device)


def repeat_rows(rows: Sequence[list[int]], vectors: np.ndarray) -> tuple[list[int], np.ndarray]:
    """All rows, each with the vector of its list: rows[i] share vectors[i]."""
    return [row for each in rows for row in each], np.repeat(vectors, [len(each) for each in rows], axis=0)
