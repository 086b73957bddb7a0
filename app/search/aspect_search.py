"""Finds the aspects of the bank whose wordings are nearest to an instruction, by the base model's vectors."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from app.ports.parts import Embedder
from app.search.aspects import Aspect, aspects

_TEXTS_AT_ONCE = 512  # between which other calls get their turn


@dataclass(frozen=True, slots=True)
class NearAspect:
    aspect: Aspect
    similarity: float  # cosine of the instruction and the nearest wording


def embed_plainly(embedder: Embedder, texts: list[str]) -> np.ndarray:
    """(n, D): by the base model where it has a vector of its own, else with as few steps as the model can take."""
    return np.asarray(
        embedder.embed_documents(texts, instruction="", steps=embedder.info.min_steps), dtype=np.float32
    ).reshape(len(texts), embedder.info.dimension)


class AspectSearch:
    """Safe to use from several threads. The bank's wordings are embedded at the first call, and kept."""

    def __init__(self, embedder: Embedder, bank: tuple[Aspect, ...] | None = None) -> None:
        self._embedder = embedder
        self._bank = aspects() if bank is None else bank
        self._wordings: np.ndarray | None = None
        self._embedding = threading.Lock()

    def nearest(self, instruction: np.ndarray, count: int) -> list[NearAspect]:
        """Best first. instruction: (D,), embedded plainly, as the wordings are."""
        starts = np.cumsum([0, *(len(each.instructions) for each in self._bank[:-1])])
        cosines = np.maximum.reduceat(self._vectors() @ instruction, starts)  # (aspects,)
        return [NearAspect(self._bank[at], float(cosines[at])) for at in np.argsort(-cosines, kind="stable")[:count]]

    def _vectors(self) -> np.ndarray:
        with self._embedding:
            if self._wordings is None:
                wordings = [wording for aspect in self._bank for wording in aspect.instructions]
                parts = [wordings[at : at + _TEXTS_AT_ONCE] for at in range(0, len(wordings), _TEXTS_AT_ONCE)]
                self._wordings = np.concatenate([embed_plainly(self._embedder, part) for part in parts])
            return self._wordings
