"""From states to embeddings. Prefixes come for free: z_1..z_K are means over the first k states (Eq 4)."""

from __future__ import annotations

from torch import Tensor, arange, cumsum
from torch.nn.functional import normalize

POOLINGS = ("mean", "last", "residual")


def pool_prefixes(generated: Tensor, prompt_mean: Tensor, pooling: str) -> Tensor:
    """Embeddings z_1..z_K, each L2-normalised: (B, K, D).

    generated: g_1..g_K, final-layer states after the final norm at the generated positions (B, K, D).
    prompt_mean: mean of the final-layer states of the prompt (B, D); only `residual` looks at it.
    """
    if pooling == "last":
        return normalize(generated, dim=-1)
    counts = arange(1, generated.shape[1] + 1, device=generated.device, dtype=generated.dtype)
    means = cumsum(generated, dim=1) / counts[:, None]  # un-normalised states are averaged, then normalised
    if pooling == "residual":
        means = means + prompt_mean[:, None, :]
    return normalize(means, dim=-1)
