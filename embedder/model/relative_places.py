"""What attention learned of the distance between two positions, as MPNet and T5 have it: a number for each head and
bucket of distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_MOST_DISTANCE = 128  # farther ones share a bucket
_LEAST = 64  # positions of the first table


class RelativePlaces:
    """weight: (buckets, heads)."""

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight.detach().float()
        self._table = self._of_length(_LEAST)

    def bias(self, length: int, dtype: torch.dtype) -> Tensor:
        """What is added before the softmax, for prompts of this length: (heads, queries, keys)."""
        table = self._table  # that of a shorter prompt is a corner of it
        if table.shape[1] < length or table.dtype != dtype:
            self._table = table = self._of_length(max(length, table.shape[1])).to(dtype)
        return table[:, :length, :length]

    def _of_length(self, length: int) -> Tensor:
        places = torch.arange(length, device=self._weight.device)
        distances = places[None, :] - places[:, None]
        return self._weight[self._bucket(distances)].permute(2, 0, 1).contiguous()

    def _bucket(self, distances: Tensor) -> Tensor:
        """Half of the buckets are of what comes after; of each half, half are single distances, others of a growing
        range."""
        half = self._weight.shape[0] // 2
        single = half // 2
        far = distances.abs()
        share = torch.log(far.clamp_min(1).float() / single) / math.log(_MOST_DISTANCE / single)
        grouped = (single + (share * (half - single)).long()).clamp_max(half - 1)
        return torch.where(distances > 0, half, 0) + torch.where(far < single, far, grouped)
