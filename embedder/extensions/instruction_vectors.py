"""Uses an instruction's own vector: subtracts it from text vectors under the instruction (as CASE), or projects text
vectors without an instruction (Hyper-CL, Yoo et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import normalize

from embedder.extensions.hyper_projection import InstructionProjection
from embedder.lru import LRUCache
from embedder.model.contract import Contract

Ids = tuple[int, ...]  # ids of an instruction as a separate text
VectorTransform = Callable[[Tensor], Tensor]  # z_1..z_K (B, K, D), L2-normalised, to the same shape

_REMEMBERED = 256


class InstructionVectors:
    """Computes instruction vectors and the transforms by them; caches the last 256. Thread-safe."""

    def __init__(self, contract: Contract, projection: InstructionProjection | None) -> None:
        self._share = contract.subtracted_instruction
        self._projection = projection
        self._known: LRUCache[tuple[Ids, int], Tensor] = LRUCache(_REMEMBERED)

    def own(self, instruction: Ids, steps: int, read: Callable[[Ids, int], Tensor]) -> Tensor:
        """The instruction's z_1..z_K (K, D), L2-normalised; calls `read` unless cached."""
        return self._known.get_or_compute((instruction, steps), partial(read, instruction, steps))

    def transform_for(
        self, instructions: Sequence[Ids], steps: int, read: Callable[[Ids, int], Tensor]
    ) -> VectorTransform | None:
        """The transform for a batch with these instructions; None if it would change no row. Rows without an
        instruction stay.

        read: returns z_1..z_K (K, D) of an instruction after this many steps, L2-normalised.
        """
        rows_of: dict[Ids, list[int]] = {}
        for row, ids in enumerate(instructions):
            if ids:
                rows_of.setdefault(ids, []).append(row)
        if not rows_of or not (self._share or self._projection):
            return None
        own = {ids: self.own(ids, steps, read) for ids in rows_of}

        def transform(prefixes: Tensor) -> Tensor:
            prefixes = prefixes.clone()
            for ids, rows in rows_of.items():
                prefixes[rows] = self._transformed(prefixes[rows], own[ids][: prefixes.shape[1]])
            return prefixes

        return transform

    def _transformed(self, prefixes: Tensor, own: Tensor) -> Tensor:
        """(n, K, D) and (K, D) to (n, K, D), L2-normalised."""
        if self._projection is None:
            return normalize(prefixes - self._share * own, dim=-1)
        return torch.stack([self._projection(prefixes[:, at], own[at]) for at in range(prefixes.shape[1])], dim=1)
