"""What a contract makes of an instruction's own vector: it is subtracted from those of texts under it (as CASE), or it
projects those of texts that were read without it (Hyper-CL, Yoo et al. 2024)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from embedder.contract import Contract
from embedder.hyper_projection import InstructionProjection

Ids = tuple[int, ...]  # of an instruction, read as a text of its own
Change = Callable[[Tensor], Tensor]  # of z_1..z_K (B, K, D), L2-normalised, to the same shape

_MOST = 256  # instructions whose vectors are remembered


class InstructionVectors:
    """Each is computed once. Safe to use from several threads."""

    def __init__(self, contract: Contract, projection: InstructionProjection | None) -> None:
        self._share = contract.subtracted_instruction
        self._projection = projection
        self._known: OrderedDict[tuple[Ids, int], Tensor] = OrderedDict()
        self._lock = threading.Lock()

    def change(self, instructions: Sequence[Ids], steps: int, read: Callable[[Ids, int], Tensor]) -> Change:
        """Of a batch, whose rows have these instructions; nothing in rows without one.

        read: z_1..z_K (K, D) of an instruction after so many steps, L2-normalised.
        """
        rows_of: dict[Ids, list[int]] = {}
        for row, ids in enumerate(instructions):
            if ids:
                rows_of.setdefault(ids, []).append(row)
        if not rows_of:
            return lambda prefixes: prefixes
        own = {ids: self._vectors_of(ids, steps, read) for ids in rows_of}

        def changed(prefixes: Tensor) -> Tensor:
            prefixes = prefixes.clone()
            for ids, rows in rows_of.items():
                prefixes[rows] = self._changed(prefixes[rows], own[ids][: prefixes.shape[1]])
            return prefixes

        return changed

    def _vectors_of(self, ids: Ids, steps: int, read: Callable[[Ids, int], Tensor]) -> Tensor:
        with self._lock:
            if (ids, steps) in self._known:
                self._known.move_to_end((ids, steps))
                return self._known[ids, steps]
        found = read(ids, steps)
        with self._lock:
            self._known[ids, steps] = found
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return found

    def _changed(self, prefixes: Tensor, own: Tensor) -> Tensor:
        """(n, K, D) and (K, D) to (n, K, D), L2-normalised."""
        if self._projection is None:
            return normalize(prefixes - self._share * own, dim=-1)
        return torch.stack([self._projection(prefixes[:, at], own[at]) for at in range(prefixes.shape[1])], dim=1)
