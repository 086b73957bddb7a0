"""From states to embeddings. Prefixes come for free: z_1..z_K are means over the first k states (Eq 4)."""

from __future__ import annotations

import torch
from torch import Tensor, arange, cat, cumsum
from torch.nn.functional import normalize

from embedder.errors import TextError
from embedder.model.refine import RefinedStates

# The baselines generate nothing: Causal-EOS pools the prompt's last state, Bidirectional-Avg their mean (paper 4.1).
# Without training: SGPT weighs states by their places; Echo takes those of the second copy, which saw all of the first.
# Causal2Vec concatenates the states of its contextual token and of the last one (2 D).
PROMPT_POOLINGS = ("prompt_last", "prompt_mean", "prompt_weighted_mean", "prompt_copy_mean", "context_last")
# LaSER's released models count the prompt's last state as the first of the steps: its 3 are 2 that generate.
POOLINGS = ("mean", "last", "residual", "mean_with_prompt_last", *PROMPT_POOLINGS)


def embedding_size(pooling: str, hidden_size: int) -> int:
    """Dimensions of what is pooled."""
    return 2 * hidden_size if pooling == "context_last" else hidden_size


def check_tolerance(tolerance: float | None) -> None:
    if tolerance is not None and not 0 <= tolerance <= 2:
        raise TextError(f"tolerance is {tolerance}, but must lie within 0 and 2: it is compared with 1 - cosine.")


def steps_to_convergence(prefixes: Tensor, tolerance: float) -> Tensor:
    """After how many steps (B,) each vector has converged: z_k is within `tolerance`, in cosine, of z_{k-1}.

    prefixes: z_1..z_K, L2-normalised (B, K, D). K where none does. What a row takes never depends on other rows.
    """
    has_converged = step_distances(prefixes) <= tolerance
    none = has_converged.new_ones(len(prefixes), 1)  # stands for the last step
    return torch.cat([has_converged, none], dim=1).to(torch.uint8).argmax(dim=1).add(2).clamp_max(prefixes.shape[1])


def step_distances(prefixes: Tensor) -> Tensor:
    """How far each step after the first moves a vector: 1 - cosine (B, K-1) of L2-normalised z_1..z_K (B, K, D)."""
    return 1 - (prefixes[:, 1:] * prefixes[:, :-1]).sum(dim=-1)


def pool_prefixes(states: RefinedStates, pooling: str) -> Tensor:
    """Embeddings z_1..z_K, each L2-normalised: (B, K, D); for the poolings that look at the prompt alone (B, 1, D), or
    (B, 1, 2 D) of two states."""
    return normalize(pool_states(states, pooling), dim=-1)


def pool_states(states: RefinedStates, pooling: str) -> Tensor:
    """The same before they are normalised, fp32."""
    if pooling == "prompt_last":
        return states.prompt_last.float()[:, None]
    if pooling == "context_last":  # whose weighted mean is the state of the contextual token alone
        return cat([states.prompt_mean, states.prompt_last.float()], dim=-1)[:, None]
    if pooling in PROMPT_POOLINGS:
        return states.prompt_mean[:, None]
    generated = states.generated
    if pooling == "last":
        return generated
    if pooling == "mean_with_prompt_last":
        generated = cat([states.prompt_last.float()[:, None], generated], dim=1)
    counts = arange(1, generated.shape[1] + 1, device=generated.device, dtype=generated.dtype)
    means = cumsum(generated, dim=1) / counts[:, None]  # un-normalised states are averaged, then normalised
    if pooling == "mean_with_prompt_last":
        return means[:, 1:]
    return means + states.prompt_mean[:, None, :] if pooling == "residual" else means
