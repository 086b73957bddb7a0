"""Losses on the embeddings of all steps. Pure tensor functions; shapes: Q queries, M candidates, K steps, D, V."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from embedder.model.prefill import on_device

LOG_EPSILON = 1e-8  # inside the logarithm, as in the authors' code


def stepwise_info_nce(
    queries: Tensor,
    candidates: Tensor,
    *,
    temperature: float | Sequence[float],
    allowed: Tensor | None = None,
) -> Tensor:
    """L_1..L_K (K,) of queries (Q, K, D) and candidates (M, K, D), L2-normalised: `info_nce` of their cosines."""
    return info_nce(stepwise_scores(queries, candidates), temperature=temperature, allowed=allowed)


def stepwise_scores(queries: Tensor, documents: Tensor, *, similarity: str = "cosine") -> Tensor:
    """Cosines after k steps (K, Q, M), of L2-normalised queries (Q, K, D) and documents (M, K, D).

    max_sim: the cosine of a query's z_k with the most similar of a document's z_1..z_k. The last step is the one used
    in search; each earlier one equals a search with fewer steps. Only the selected step gets a gradient.
    """
    if similarity == "cosine":
        return torch.einsum("qkd,mkd->kqm", queries, documents)
    scores = torch.einsum("qkd,mjd->kjqm", queries, documents)
    count = len(scores)
    later = torch.ones(count, count, dtype=torch.bool, device=scores.device).triu(1)  # later steps are masked
    return scores.masked_fill(later[:, :, None, None], float("-inf")).max(dim=1).values


def info_nce(scores: Tensor, *, temperature: float | Sequence[float], allowed: Tensor | None = None) -> Tensor:
    """L_1..L_K (K,): InfoNCE (Eq 7) of the scores at every step (K, Q, M), averaged over the queries.

    Candidate i is the positive of query i, the others are negatives. `allowed` (Q, M) bool removes false negatives
    where it is False; positives are always kept. temperature: τ, or τ_1, τ_2, …; the last value applies to all later
    steps.
    """
    taus = on_device(temperature_of_steps(temperature, len(scores)), scores.device)
    scores = scores / taus[:, None, None]
    if allowed is not None:
        keep = allowed | torch.eye(*allowed.shape, dtype=torch.bool, device=allowed.device)
        scores = scores.masked_fill(~keep, float("-inf"))
    target = torch.arange(scores.shape[1], device=scores.device).repeat(len(scores))
    return F.cross_entropy(scores.flatten(0, 1), target, reduction="none").view(len(scores), -1).mean(1)


def temperature_of_steps(temperature: float | Sequence[float], steps: int) -> Tensor:
    """τ of every step (K,); a list shorter than K repeats its last value."""
    values = [temperature] if isinstance(temperature, (int, float)) else list(temperature)
    return torch.tensor([values[min(step, len(values) - 1)] for step in range(steps)])


def truncations(embeddings: Tensor, dimensions: Sequence[int]) -> list[Tensor]:
    """(B, K, D) cut to each of `dimensions` and re-normalised, then whole (Matryoshka: Kusupati et al. 2022)."""
    return [*(F.normalize(embeddings[..., :size], dim=-1) for size in dimensions), embeddings]


def unlike_positive(queries: Tensor, candidates: Tensor, *, margin: float) -> Tensor:
    """Which candidates are true negatives according to a guide model (Q, M): those not nearer than positive - margin.

    queries (Q, D) and candidates (M, D) are the guide's vectors, L2-normalised (GISTEmbed: Solatorio 2024).
    """
    scores = queries @ candidates.T
    return scores <= scores.diagonal()[:, None] - margin


def refinement_regulariser(losses: Tensor, *, epsilon: float = LOG_EPSILON, margin: float = 0.0) -> Tensor:
    """L_reg of Eq 8: mean over steps of max(log L_{k+1} - log L_k + margin, 0); zero for K = 1.

    With a margin, each step must improve on the last by that much. L_k then gets no gradient, so that training never
    worsens an earlier step to satisfy a later one. Without a margin, this is the paper's term.
    """
    if losses.shape[0] < 2:
        return losses.new_zeros(())
    logs = torch.log(losses + epsilon)
    earlier = logs[:-1].detach() if margin else logs[:-1]
    return F.relu(logs[1:] - earlier + margin).mean()


def icr_loss(
    losses: Tensor,
    *,
    reduction: str,
    regulariser_weight: float,
    margin: float = 0.0,
    rising: float = 0.0,
) -> Tensor:
    """Iterative contrastive refinement: the stepwise losses (K,) reduced, plus λ times the regulariser.

    reduction: `sum` (paper) or `mean` (released code). rising > 0 weighs step k by 1 + rising·(k-1)/(K-1), scaled to
    mean 1, so that later steps count more.
    """
    if reduction not in ("sum", "mean"):
        raise ValueError(f"reduction is {reduction!r}, but must be 'sum' or 'mean'.")
    weights = 1 + rising * torch.linspace(0, 1, losses.shape[0], device=losses.device)
    weighted = losses * weights / weights.mean()
    total = weighted.sum() if reduction == "sum" else weighted.mean()
    return total + regulariser_weight * refinement_regulariser(losses, margin=margin)


def distillation(embeddings: Tensor, teacher: Tensor) -> Tensor:
    """Mean over texts and steps of 1 - cosine; embeddings (B, K, D), teacher (B, D), both L2-normalised."""
    return (1 - torch.einsum("bkd,bd->bk", embeddings, teacher)).mean()


def grounding(mean_soft_token: Tensor, rows: Tensor, ids: Tensor, weights: Tensor, *, texts: int) -> Tensor:
    """Cross-entropy of weighted word bags against the mean soft token (B, V).

    rows, ids, weights (n,): token `ids[i]` belongs to text `rows[i]`; the weights of a row sum to 1. The mean over
    steps allows different steps to cover different words. texts: number of texts with a bag.
    """
    if not len(rows):
        return mean_soft_token.new_zeros(())
    log_probabilities = mean_soft_token[rows, ids].clamp_min(1e-9).log()
    return -(weights * log_probabilities).sum() / texts
