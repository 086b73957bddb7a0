"""The embeddings of one training pass, with gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Embedded:
    """Some rows of one side, with gradient."""

    prefixes: Tensor  # z_1..z_K (B, K, D)
    generated: Tensor  # g_1..g_K, L2-normalised (B, K, D); (B, 0, D) if nothing is generated
    mean_token: Tensor  # (B, n) over the soft vocabulary; zeros if unused
    repetition: Tensor  # (B,)

    def split(self, sizes: Sequence[int]) -> list[Embedded]:
        whole = (self.prefixes, self.generated, self.mean_token, self.repetition)
        parts = (each.split(list(sizes)) for each in whole)
        return [Embedded(*part) for part in zip(*parts, strict=True)]


class MeanSoftToken:
    """Observes soft tokens and computes, with gradient, their mean over the steps and how much each repeats."""

    def __init__(self, rows: int, soft_weight: Tensor) -> None:
        self._total = soft_weight.new_zeros(rows, len(soft_weight), dtype=torch.float32)
        self._repeated = soft_weight.new_zeros(rows, dtype=torch.float32)
        self._count = 0

    def __call__(self, step: int, soft_token: Tensor) -> None:
        if step > 1:
            self._repeated = self._repeated + torch.minimum(soft_token, self._total.detach()).sum(dim=-1)
        self._total = self._total + soft_token
        self._count = step

    def repetition(self) -> Tensor:
        """Mean share (B,) of s_k that earlier steps already covered, k = 2..K (the coverage of See et al. 2017)."""
        return self._repeated / max(1, self._count - 1)

    def mean(self) -> Tensor:
        return self._total / max(1, self._count)
