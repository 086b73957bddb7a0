"""The words of every soft token, and how far the vector still moves. Plain values, without torch and numpy."""

from __future__ import annotations

from dataclasses import dataclass

QUERY_STEPS = 5  # where a model says nothing else: more buy nothing that was measured, docs/evaluation/report.md
DOCUMENT_STEPS = 20
MAX_BIAS = 10.0  # either way, on the logits of a word
MAX_BIASED_WORDS = 64


@dataclass(frozen=True, slots=True)
class RefinementToken:
    token: str
    probability: float


@dataclass(frozen=True, slots=True)
class RefinementStep:
    """The most probable words of one soft token; `step` counts from 1.

    `remaining` is 1 - cos(z_k, z_K), how far the vector still moves until the last step, which is known after it.
    """

    step: int
    tokens: tuple[RefinementToken, ...]
    remaining: float = 0.0
