"""The method: generate soft tokens through the KV cache and collect their states (paper Eq 1-6, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

# Called at every step with its number (from 1) and the soft token s_k (B, V) in fp32; it must keep little of it.
StepObserver = Callable[[int, Tensor], None]


class Reader(Protocol):
    """A model that reads a batch of prompts once, and then position after position."""

    def read(self) -> tuple[Tensor, Tensor]:
        """The prefill: h'_0, the state at each row's last token (B, D), and the mean of its states, fp32 (B, D)."""

    def advance(self, inputs: Tensor) -> Tensor:
        """One position more: its inputs (B, D), its final states (B, D)."""

    def logits(self, state: Tensor) -> Tensor:
        """(B, D) -> (B, n), over the entries of a soft token."""

    def embed_soft(self, soft_token: Tensor) -> Tensor:
        """d = s @ E (Eq 6): fp32 (B, n) -> (B, D)."""

    def next_inputs(self, state: Tensor, *, temperature: float, logit_bias: Tensor | None) -> Tensor:
        """d of a state, (B, D) -> (B, D), without returning the soft token, which then need not exist."""


@dataclass(frozen=True, slots=True)
class RefinedStates:
    generated: Tensor  # g_1..g_K, fp32 (B, K, D)
    prompt_mean: Tensor  # mean of the prompt's states, fp32 (B, D)
    prompt_last: Tensor  # h'_0 (B, D)


def refine_states(
    reader: Reader,
    *,
    steps: int,
    temperature: float = 1.0,
    logit_bias: Tensor | None = None,
    on_step: StepObserver | None = None,
    stop: Callable[[RefinedStates], bool] | None = None,
) -> RefinedStates:
    """One prefill and exactly `steps` one-position decode steps; baselines take none. Once `stop`, which is told of the
    states so far after every step, is true, there is no other.

    s_k = softmax(head(h'_{k-1}) / temperature + logit_bias) (Eq 5), d_k = s_k @ E (Eq 6) is fed at the next position,
    and g_k is the final-layer state there (Eq 3-4). The (K+1)-th soft token is never computed. Gradients flow
    through everything when they are enabled.
    """
    prompt_last, prompt_mean = reader.read()
    state = prompt_last
    generated: list[Tensor] = []

    def states() -> RefinedStates:
        none = prompt_mean[:, None][:, :0]
        return RefinedStates(torch.stack(generated, dim=1) if generated else none, prompt_mean, prompt_last)

    for step in range(1, steps + 1):
        if on_step is None:
            inputs = reader.next_inputs(state, temperature=temperature, logit_bias=logit_bias)
        else:
            soft_token = softmax_over_vocabulary(reader.logits(state), temperature=temperature, logit_bias=logit_bias)
            on_step(step, soft_token)
            inputs = reader.embed_soft(soft_token)
        state = reader.advance(inputs)
        generated.append(state.float())
        if stop is not None and stop(states()):
            break
    return states()


def softmax_over_vocabulary(logits: Tensor, *, temperature: float, logit_bias: Tensor | None) -> Tensor:
    """s = softmax(logits / temperature + logit_bias) (Eq 5), in fp32 whatever the weights' dtype: (B, n)."""
    logits = logits.float() / temperature
    return torch.softmax(logits if logit_bias is None else logits + logit_bias, dim=-1)
