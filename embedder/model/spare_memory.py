"""Keeps the largest blocks of memory that runs gave back, for the next runs.

The operating system hands out large blocks page by page, at the first touch of each: for the keys and values of 64
texts of 128 tokens that takes longer than writing them.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence

import torch
from torch import Tensor

_MOST_BLOCKS = 2  # of the two batches that an engine computes side by side
MOST_BYTES = 256 * 2**20  # a larger block goes back to the system; 8,192 tokens of gircse-mini take 151 MB


_ALL: weakref.WeakSet[SpareMemory] = weakref.WeakSet()


def release_spare_memory() -> None:
    """Of all models of the process, for when a large piece of work is done."""
    for each in list(_ALL):
        each.release()


class SpareMemory:
    """A block for each of the runs that go on at the same time; safe to use from several threads."""

    def __init__(self) -> None:
        self._blocks: list[Tensor] = []  # bytes (n,), the largest last
        self._lock = threading.Lock()
        _ALL.add(self)

    def release(self) -> None:
        """Lets go of what is kept."""
        with self._lock:
            self._blocks.clear()

    def take(self, shape: Sequence[int], dtype: torch.dtype, *, owner: object) -> Tensor:
        """An uninitialised tensor on the CPU. Its memory comes back when `owner` is gone, which must outlive it."""
        size = math.prod(shape) * dtype.itemsize
        with self._lock:
            block = self._blocks.pop() if self._blocks else None
        if block is None or len(block) < size:
            with torch.inference_mode(False):  # a tensor made in that mode cannot be written to outside of it
                block = torch.empty(size, dtype=torch.uint8)
        weakref.finalize(owner, self._give_back, block)
        return block[:size].view(dtype).view(tuple(shape))

    def _give_back(self, block: Tensor) -> None:
        if len(block) > MOST_BYTES:
            return
        with self._lock:
            self._blocks = sorted([*self._blocks, block], key=len)[-_MOST_BLOCKS:]
