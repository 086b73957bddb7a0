"""The method: generate soft tokens through the KV cache and collect their states (paper Eq 1-6, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache

from embedder.backbone import Backbone

# Called at every step with its number (from 1) and the soft token s_k (B, V) in fp32; it must keep little of it.
StepObserver = Callable[[int, Tensor], None]


@dataclass(frozen=True, slots=True)
class Prompt:
    """Padded prompts; pads may stand on either side."""

    ids: Tensor  # (B, N)
    mask: Tensor  # (B, N) bool, True at real tokens


@dataclass(frozen=True, slots=True)
class RefinedStates:
    generated: Tensor  # g_1..g_K, fp32 (B, K, D)
    prompt_mean: Tensor  # mean of the prompt's states, fp32 (B, D)
    prompt_last: Tensor  # h'_0 (B, D)


def read_prompt(backbone: Backbone, prompt: Prompt, cache: DynamicCache) -> tuple[Tensor, Tensor]:
    """The prefill: h'_0, the state at each row's last real token (B, D), and the mean of its states, fp32 (B, D)."""
    mask = prompt.mask
    positions = (mask.long().cumsum(dim=1) - 1).clamp_min(0)
    states = backbone.forward(backbone.embed(prompt.ids), mask=mask, positions=positions, cache=cache)  # (B, N, D)
    rows = torch.arange(mask.shape[0], device=mask.device)
    last = mask.shape[1] - 1 - mask.flip(1).long().argmax(dim=1)
    weights = mask.to(torch.float32).unsqueeze(-1)
    return states[rows, last], (states.float() * weights).sum(dim=1) / weights.sum(dim=1)


def refine_states(
    backbone: Backbone,
    prompt: Prompt,
    *,
    steps: int,
    temperature: float = 1.0,
    logit_bias: Tensor | None = None,
    observe: StepObserver | None = None,
) -> RefinedStates:
    """One prefill and exactly `steps` one-position decode steps; baselines take none.

    s_k = softmax(head(h'_{k-1}) / temperature + logit_bias) (Eq 5), d_k = s_k @ E (Eq 6) is fed at the next position,
    and g_k is the final-layer state there (Eq 3-4). The (K+1)-th soft token is never computed. Gradients flow
    through everything when they are enabled.
    """
    cache = backbone.new_cache()
    prompt_last, prompt_mean = read_prompt(backbone, prompt, cache)
    state = prompt_last
    mask = prompt.mask
    lengths = mask.sum(dim=1)  # (B,)

    generated = []
    for step in range(1, steps + 1):
        logits = backbone.logits(state).float() / temperature  # softmax in fp32 whatever the weights' dtype
        if logit_bias is not None:
            logits = logits + logit_bias
        soft_token = torch.softmax(logits, dim=-1)
        if observe is not None:
            observe(step, soft_token)
        mask = torch.cat([mask, mask.new_ones(mask.shape[0], 1)], dim=1)
        state = backbone.forward(
            backbone.embed_soft(soft_token)[:, None, :],
            mask=mask,
            positions=(lengths + step - 1)[:, None],
            cache=cache,
        )[:, -1]
        generated.append(state.float())
    none = prompt_mean[:, None][:, :0]
    return RefinedStates(torch.stack(generated, dim=1) if generated else none, prompt_mean, prompt_last)
