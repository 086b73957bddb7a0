"""The result of embedding one text: its vector and the words of every soft token. Plain values, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from embedder.refinement_steps import RefinementStep


@dataclass(frozen=True, slots=True, eq=False)
class Refinement:
    """How the model embedded a text: the vector, and the content of each soft token. Baselines have a vector, but no
    steps.

    vector: (D,), L2-normalised. prefix_vectors: (K, D), row k-1 is the embedding after k steps; None if the model runs
    in another process. read_text: the sentences that the model read, if the instruction excluded some.
    """

    text: str
    instruction: str  # the instruction in effect, after defaults
    vector: np.ndarray
    steps: tuple[RefinementStep, ...] = ()
    prefix_vectors: np.ndarray = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32), repr=False)
    read_text: str = ""

    @classmethod
    def of_prefixes(
        cls,
        text: str,
        instruction: str,
        prefixes: np.ndarray,
        steps: Sequence[RefinementStep],
        *,
        read_text: str = "",
    ) -> Self:
        """prefixes: (K, D) float32; uses the first K of `steps`."""
        remaining = _remaining(prefixes).tolist()
        known = tuple(replace(step, remaining=left) for step, left in zip(steps, remaining, strict=False))
        return cls(text, instruction, prefixes[-1], known, prefixes, read_text)

    @property
    def step_count(self) -> int:
        return len(self.steps)

    @property
    def remaining(self) -> np.ndarray:
        """1 - cos(z_k, z_K) of every step (K,): how far each vector is from the last one."""
        return np.array([each.remaining for each in self.steps])


def _remaining(prefixes: np.ndarray) -> np.ndarray:
    vectors = prefixes.astype(np.float64)  # (K, D); float32 is too coarse for the late steps
    last = vectors[-1]
    cosines = vectors @ last / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(last))
    remaining: np.ndarray = (1.0 - cosines).clip(0)
    remaining[-1] = 0.0
    return remaining
