"""Instruction negatives: the same query under an instruction that makes its document irrelevant.

Promptriever (Weller et al. 2024) adds documents that fit a query and violate its instruction, as the hard negatives of
`triplets` and `contrasts` do; InF-Embed and others turn it round and keep the document: the query under a poisoned
instruction must not find it. This is the second.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from embedder.training.losses import stepwise_info_nce


def instruction_negative_loss(
    asked: Tensor,
    poisoned: Tensor,
    documents: Tensor,
    *,
    temperature: float | Sequence[float],
    allowed: Tensor,
) -> Tensor:
    """L_1..L_K (K,): documents look for their queries, among all queries and their own under another instruction.

    asked, poisoned: the queries under their instruction and under one that makes their document irrelevant
    (Q, K, D); documents: their positives (Q, K, D), all L2-normalised. allowed (Q, Q): False where document j may be
    relevant to query i although it is not its positive.
    """
    own = torch.eye(len(asked), dtype=torch.bool, device=asked.device)
    candidates = torch.cat([asked, poisoned])
    return stepwise_info_nce(documents, candidates, temperature=temperature, allowed=torch.cat([allowed.T, own], dim=1))
