"""The words of every soft token, and how far the vector still moves. Plain values, without torch and numpy."""

from __future__ import annotations

from dataclasses import dataclass

QUERY_STEPS = 5  # default unless the model sets one; more brought no measured gain, docs/evaluation/report.md
DOCUMENT_STEPS = 20
MAX_BIAS = 10.0  # limit, positive or negative, of a bias on a word's logit
MAX_BIASED_WORDS = 64
MAX_INSTRUCTION_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class RefinementToken:
    token: str
    probability: float


@dataclass(frozen=True, slots=True)
class RefinementStep:
    """The most probable words of one soft token; `step` counts from 1.

    `remaining` is 1 - cos(z_k, z_K), the distance to the vector of the last step; known only after that step.
    """

    step: int
    tokens: tuple[RefinementToken, ...]
    remaining: float = 0.0
