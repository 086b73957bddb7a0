"""Instruction negatives: the same query under an instruction that makes its document irrelevant.

Promptriever (Weller et al. 2024) adds documents that fit a query but violate its instruction; the hard negatives of
`triplets` and `contrasts` do the same. InF-Embed and others keep the document instead and change the instruction: the
query under a poisoned instruction must not find it. This module does the latter.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from embedder.training.losses import stepwise_info_nce


def instruction_negative_loss(
    instructed: Tensor,
    poisoned: Tensor,
    documents: Tensor,
    *,
    temperature: float | Sequence[float],
    allowed: Tensor,
) -> Tensor:
    """L_1..L_K (K,): each document must find its query among all queries and its own query under another instruction.

    instructed, poisoned: the queries (Q, K, D) under their instruction, and under one that makes their document
    irrelevant. documents: their positives (Q, K, D). All are L2-normalised. allowed (Q, Q): False if document j may be
    relevant to query i without being its positive.
    """
    own = torch.eye(len(instructed), dtype=torch.bool, device=instructed.device)
    candidates = torch.cat([instructed, poisoned])
    return stepwise_info_nce(documents, candidates, temperature=temperature, allowed=torch.cat([allowed.T, own], dim=1))
