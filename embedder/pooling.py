"""From states to embeddings. Prefixes come for free: z_1..z_K are means over the first k states (Eq 4)."""

from __future__ import annotations

from torch import Tensor, arange, cumsum
from torch.nn.functional import normalize

from embedder.refine import RefinedStates

# The baselines generate nothing: Causal-EOS pools the prompt's last state, Bidirectional-Avg their mean (paper 4.1).
PROMPT_POOLINGS = ("prompt_last", "prompt_mean")
POOLINGS = ("mean", "last", "residual", *PROMPT_POOLINGS)


def pool_prefixes(states: RefinedStates, pooling: str) -> Tensor:
    """Embeddings z_1..z_K, each L2-normalised: (B, K, D); (B, 1, D) for the poolings that look at the prompt alone."""
    if pooling == "prompt_last":
        return normalize(states.prompt_last.float(), dim=-1)[:, None]
    if pooling == "prompt_mean":
        return normalize(states.prompt_mean, dim=-1)[:, None]
    generated = states.generated
    if pooling == "last":
        return normalize(generated, dim=-1)
    counts = arange(1, generated.shape[1] + 1, device=generated.device, dtype=generated.dtype)
    means = cumsum(generated, dim=1) / counts[:, None]  # un-normalised states are averaged, then normalised
    if pooling == "residual":
        means = means + states.prompt_mean[:, None, :]
    return normalize(means, dim=-1)
