"""The losses of a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class Losses:
    """Of one group; None where it says nothing. hits: share of texts whose nearest name is theirs."""

    names: Tensor | None = None
    alike: Tensor | None = None
    plain: Tensor | None = None
    hits: float | None = None

    def row(self, kind: str) -> dict:
        """For the log."""
        values = {"names": self.names, "alike": self.alike, "plain": self.plain}
        shown = {name: float(loss.detach()) for name, loss in values.items() if loss is not None}
        return {"kind": kind, "hits": self.hits, **shown}


def gold_mask(gold: Sequence[Sequence[int]], names: int) -> Tensor:
    """(B, M), true where a name is the text's."""
    mask = torch.zeros(len(gold), names, dtype=torch.bool)
    for row, places in enumerate(gold):
        mask[row, list(places)] = True
    return mask


def naming_loss(scores: Tensor, gold: Tensor) -> Tensor:
    """-log of the probability that falls on any of a text's own names; scores, gold (B, M), every row with a name."""
    own = scores.masked_fill(~gold, -torch.inf)
    return (scores.logsumexp(1) - own.logsumexp(1)).mean()


def rising_mean(losses: Sequence[Tensor], rising: float) -> Tensor:
    """Of the losses of z_0..z_K, the last weighing 1 + rising times the first."""
    weights = 1 + rising * torch.linspace(0, 1, len(losses))
    return (torch.stack(list(losses)) * weights).sum() / weights.sum()


def likeness_loss(vectors: Tensor, gold: Tensor, *, temperature: float) -> Tensor | None:
    """Texts of one value against all others of the group (supervised contrast); None where no two share a value.

    vectors (B, D), L2-normalised; gold (B, M).
    """
    shared = (gold.float() @ gold.float().T > 0) & ~torch.eye(len(gold), dtype=torch.bool)
    if not bool(shared.any()):
        return None
    scores = (vectors @ vectors.T / temperature).masked_fill(torch.eye(len(gold), dtype=torch.bool), -torch.inf)
    log_chances = scores - scores.logsumexp(1, keepdim=True)
    kept = shared.any(1)
    per_text = log_chances.masked_fill(~shared, 0).sum(1)[kept] / shared.sum(1)[kept]
    return -per_text.mean()


def plain_loss(vectors: Tensor, plain: Tensor) -> Tensor:
    """1 - cosine to the plain vector; both (B, D), L2-normalised."""
    return (1 - F.cosine_similarity(vectors, plain, dim=1)).mean()
