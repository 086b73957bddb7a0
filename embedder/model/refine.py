"""The method: generate soft tokens through the KV cache (paper Eq 1-6, Algorithm 1), collect and pool their states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, arange, cat, cumsum
from torch.nn.functional import normalize

from embedder.errors import TextError

# Called at every step with its number (from 1) and the soft token s_k (B, V) in float32; keep little of it, it is
# large.
StepObserver = Callable[[int, Tensor], None]


class SoftVocabulary(Protocol):
    """The entries of soft tokens: the projection to their logits, and their embeddings."""

    def logits(self, state: Tensor) -> Tensor:
        """The logits of a soft token's entries, before softmax: states (B, D) -> (B, n)."""

    def embed_soft(self, soft_token: Tensor) -> Tensor:
        """d = s @ E (Eq 6): fp32 (B, n) -> (B, D)."""

    def next_inputs(self, state: Tensor, *, temperature: float, logit_bias: Tensor | None) -> Tensor:
        """d of a state, (B, D) -> (B, D). Does not return the soft token, so it need not be materialised."""


class Prefill(Protocol):
    """A model that encodes a batch of prompts once and then advances position by position."""

    def read(self) -> tuple[Tensor, Tensor]:
        """The prefill: h'_0, the state at each row's last token (B, D), and the mean of its states, fp32 (B, D)."""

    def advance(self, inputs: Tensor) -> Tensor:
        """Advances by one position: inputs (B, D) to final states (B, D)."""

    @property
    def vocabulary(self) -> SoftVocabulary: ...


@dataclass(frozen=True, slots=True)
class RefinedStates:
    generated: Tensor  # g_1..g_K, fp32 (B, K, D)
    prompt_mean: Tensor  # mean of the prompt's states, fp32 (B, D)
    prompt_last: Tensor  # h'_0 (B, D)


def refine_states(
    prefill: Prefill,
    *,
    steps: int,
    temperature: float = 1.0,
    logit_bias: Tensor | None = None,
    on_step: StepObserver | None = None,
    stop: Callable[[RefinedStates], bool] | None = None,
) -> RefinedStates:
    """One prefill and exactly `steps` one-position decode steps; baselines take none. `stop` gets the states so far
    after every step and ends the loop by returning True.

    s_k = softmax(head(h'_{k-1}) / temperature + logit_bias) (Eq 5), d_k = s_k @ E (Eq 6) is the input of the next
    position, and g_k is the final-layer state there (Eq 3-4). The (K+1)-th soft token is never computed. Gradients flow
    through everything if enabled.
    """
    prompt_last, prompt_mean = prefill.read()
    state = prompt_last
    generated: list[Tensor] = []

    def states() -> RefinedStates:
        none = prompt_mean[:, None][:, :0]
        return RefinedStates(torch.stack(generated, dim=1) if generated else none, prompt_mean, prompt_last)

    for step in range(1, steps + 1):
        if on_step is None:
            inputs = prefill.vocabulary.next_inputs(state, temperature=temperature, logit_bias=logit_bias)
        else:
            logits = prefill.vocabulary.logits(state)
            soft_token = softmax_over_vocabulary(logits, temperature=temperature, logit_bias=logit_bias)
            on_step(step, soft_token)
            inputs = prefill.vocabulary.embed_soft(soft_token)
        state = prefill.advance(inputs)
        generated.append(state.float())
        if stop is not None and stop(states()):
            break
    return states()


def softmax_over_vocabulary(logits: Tensor, *, temperature: float, logit_bias: Tensor | None) -> Tensor:
    """s = softmax(logits / temperature + logit_bias) (Eq 5), in float32 whatever the weights' dtype: (B, n)."""
    logits = logits.float() / temperature
    return torch.softmax(logits if logit_bias is None else logits + logit_bias, dim=-1)


# Poolings without generation: Causal-EOS takes the prompt's last state, Bidirectional-Avg their mean (paper 4.1).
# Without training: SGPT weighs states by position; Echo takes those of the second copy, which has seen all of the
# first. Causal2Vec concatenates the states of its contextual token and of the last token (2 D).
PROMPT_POOLINGS = ("prompt_last", "prompt_mean", "prompt_weighted_mean", "prompt_copy_mean", "context_last")
# LaSER's released models count the prompt's last state as the first step: 3 steps generate 2 tokens.
POOLINGS = ("mean", "last", "residual", "mean_with_prompt_last", *PROMPT_POOLINGS)


def embedding_size(pooling: str, hidden_size: int) -> int:
    """Number of dimensions after pooling."""
    return 2 * hidden_size if pooling == "context_last" else hidden_size


def check_tolerance(tolerance: float | None) -> None:
    if tolerance is not None and not 0 <= tolerance <= 2:
        raise TextError(f"tolerance is {tolerance}, but must be from 0 to 2: it is compared with 1 - cosine.")


def steps_to_convergence(prefixes: Tensor, tolerance: float) -> Tensor:
    """The step (B,) at which each vector has converged: z_k is within `tolerance`, in 1 - cosine, of z_{k-1}.

    prefixes: z_1..z_K, L2-normalised (B, K, D). K if no step converges. Rows are independent of each other.
    """
    has_converged = step_distances(prefixes) <= tolerance
    none = has_converged.new_ones(len(prefixes), 1)  # the last step counts as converged
    return torch.cat([has_converged, none], dim=1).to(torch.uint8).argmax(dim=1).add(2).clamp_max(prefixes.shape[1])


def step_distances(prefixes: Tensor) -> Tensor:
    """How far each step after the first moves a vector: 1 - cosine (B, K-1) of L2-normalised z_1..z_K (B, K, D)."""
    return 1 - (prefixes[:, 1:] * prefixes[:, :-1]).sum(dim=-1)


def pool_prefixes(states: RefinedStates, pooling: str) -> Tensor:
    """Embeddings z_1..z_K, each L2-normalised: (B, K, D). Poolings over the prompt only give (B, 1, D), or (B, 1, 2 D)
    for two states."""
    return normalize(pool_states(states, pooling), dim=-1)


def pool_states(states: RefinedStates, pooling: str) -> Tensor:
    """Like `pool_prefixes`, before normalisation, in float32."""
    if pooling == "prompt_last":
        return states.prompt_last.float()[:, None]
    if pooling == "context_last":  # the weighted mean is the state of the contextual token only
        return cat([states.prompt_mean, states.prompt_last.float()], dim=-1)[:, None]
    if pooling in PROMPT_POOLINGS:
        return states.prompt_mean[:, None]
    generated = states.generated
    if pooling == "last":
        return generated
    if pooling == "mean_with_prompt_last":
        generated = cat([states.prompt_last.float()[:, None], generated], dim=1)
    counts = arange(1, generated.shape[1] + 1, device=generated.device, dtype=generated.dtype)
    means = cumsum(generated, dim=1) / counts[:, None]  # averages un-normalised states; the caller normalises
    if pooling == "mean_with_prompt_last":
        return means[:, 1:]
    return means + states.prompt_mean[:, None, :] if pooling == "residual" else means
