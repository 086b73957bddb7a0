"""Finds the aspects of the bank whose wordings are nearest to an instruction, by the base model's vectors."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.ports.parts import Embedder
from app.search.aspect_vectors import kept_vectors
from app.search.aspects import Aspect, aspects

# One wording alone is near to many instructions, three are near to those that mean the same.
_NEAREST_WORDINGS = 3
_TEXTS_AT_ONCE = 512  # between which other calls get their turn


@dataclass(frozen=True, slots=True)
class NearAspect:
    aspect: Aspect
    similarity: float  # mean cosine of the instruction and the nearest wordings


def embed_plainly(embedder: Embedder, texts: list[str]) -> np.ndarray:
    """(n, D): by the base model where it has a vector of its own, else with as few steps as the model can take."""
    return np.asarray(
        embedder.embed_documents(texts, instruction="", steps=embedder.info.min_steps), dtype=np.float32
    ).reshape(len(texts), embedder.info.dimension)


def embed_wordings(embedder: Embedder, wordings: list[str]) -> np.ndarray:
    """(n, D), some at a time."""
    parts = [wordings[at : at + _TEXTS_AT_ONCE] for at in range(0, len(wordings), _TEXTS_AT_ONCE)]
    return np.concatenate([embed_plainly(embedder, part) for part in parts])


def mean_of_nearest(cosines: np.ndarray, count: int) -> float:
    """cosines: (n,), of which the `count` greatest count, or all of fewer."""
    return float(np.sort(cosines)[-count:].mean())


def bank_wordings(bank: Sequence[Aspect] | None = None) -> list[str]:
    return [wording for aspect in (aspects() if bank is None else bank) for wording in aspect.instructions]


class AspectSearch:
    """Safe to use from several threads. The bank's wordings are embedded at the first call, unless their vectors came
    along, and kept."""

    def __init__(self, embedder: Embedder, bank: tuple[Aspect, ...] | None = None) -> None:
        self._embedder = embedder
        self._bank = aspects() if bank is None else bank
        self._wordings: np.ndarray | None = None
        self._embedding = threading.Lock()

    def nearest(self, instruction: np.ndarray, count: int) -> list[NearAspect]:
        """Best first. instruction: (D,), embedded plainly, as the wordings are."""
        ends = np.cumsum([len(each.instructions) for each in self._bank])
        cosines = np.split(self._vectors() @ instruction, ends)[:-1]
        similarities = [mean_of_nearest(own, _NEAREST_WORDINGS) for own in cosines]
        ranked = sorted(range(len(self._bank)), key=lambda at: -similarities[at])
        return [NearAspect(self._bank[at], similarities[at]) for at in ranked[:count]]

    def _vectors(self) -> np.ndarray:
        with self._embedding:
            if self._wordings is None:
                wordings = bank_wordings(self._bank)
                self._wordings = kept_vectors(self._embedder.info, wordings)
                if self._wordings is None:
                    self._wordings = embed_wordings(self._embedder, wordings)
            return self._wordings
