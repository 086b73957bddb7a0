"""Learned attention bias by relative distance, as in MPNet and T5: one number per head and bucket of distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_MOST_DISTANCE = 128  # longer distances share a bucket
_LEAST = 64  # size of the first table, in positions


class RelativePlaces:
    """A learned bias by relative distance. weight: (buckets, heads)."""

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight.detach().float()
        self._table = self._of_length(_LEAST)

    def bias(self, length: int, dtype: torch.dtype) -> Tensor:
        """The bias to add before the softmax, for prompts of this length: (heads, queries, keys)."""
        table = self._table  # the bias of a shorter prompt is a corner of it
        if table.shape[1] < length or table.dtype != dtype:
            self._table = table = self._of_length(max(length, table.shape[1])).to(dtype)
        return table[:, :length, :length]

    def _of_length(self, length: int) -> Tensor:
        places = torch.arange(length, device=self._weight.device)
        distances = places[None, :] - places[:, None]
        return self._weight[self._bucket(distances)].permute(2, 0, 1).contiguous()

    def _bucket(self, distances: Tensor) -> Tensor:
        """The bucket of each distance. Half of the buckets are for later positions; in each half, half are single
        distances and the others cover growing ranges."""
        half = self._weight.shape[0] // 2
        single = half // 2
        far = distances.abs()
        share = torch.log(far.clamp_min(1).float() / single) / math.log(_MOST_DISTANCE / single)
        grouped = (single + (share * (half - single)).long()).clamp_max(half - 1)
        return torch.where(distances > 0, half, 0) + torch.where(far < single, far, grouped)
