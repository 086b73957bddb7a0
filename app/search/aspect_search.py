"""Finds the aspects of the bank whose wordings have the highest cosines with an instruction (base-model vectors)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.ports.parts import Embedder
from app.search.aspect_vectors import kept_vectors
from app.search.aspects import BankAspect, aspects

# Averaged, since a single wording is often near to an unrelated instruction, and three seldom are.
_NEAREST_WORDINGS = 3
_TEXTS_AT_ONCE = 512  # per call of the embedder; other calls run in between


@dataclass(frozen=True, slots=True)
class NearAspect:
    aspect: BankAspect
    similarity: float  # mean cosine of the instruction and the nearest wordings


def embed_plainly(embedder: Embedder, texts: list[str]) -> np.ndarray:
    """Embeds without instruction, with the fewest steps of the model: (n, D).

    Zero steps give the base model's own vector, where the model supports that.
    """
    return np.asarray(
        embedder.embed_documents(texts, instruction="", steps=embedder.info.min_steps), dtype=np.float32
    ).reshape(len(texts), embedder.info.dimension)


def embed_wordings(embedder: Embedder, wordings: list[str]) -> np.ndarray:
    """Embeds `_TEXTS_AT_ONCE` wordings per call: (n, D)."""
    parts = [wordings[at : at + _TEXTS_AT_ONCE] for at in range(0, len(wordings), _TEXTS_AT_ONCE)]
    return np.concatenate([embed_plainly(embedder, part) for part in parts])


def mean_of_nearest(cosines: np.ndarray, count: int) -> float:
    """Averages the `count` greatest of `cosines` (n,), or all if n is smaller."""
    return float(np.sort(cosines)[-count:].mean())


def bank_wordings(bank: Sequence[BankAspect] | None = None) -> list[str]:
    return [wording for aspect in (aspects() if bank is None else bank) for wording in aspect.instructions]


class AspectSearch:
    """Finds the nearest aspects of the bank. Thread-safe.

    The first call loads the shipped vectors of the wordings, or embeds them if there are none for this model, and keeps
    them in memory.
    """

    def __init__(self, embedder: Embedder, bank: tuple[BankAspect, ...] | None = None) -> None:
        self._embedder = embedder
        self._bank = aspects() if bank is None else bank
        self._wordings: np.ndarray | None = None
        self._embedding = threading.Lock()

    def nearest(self, instruction: np.ndarray, count: int) -> list[NearAspect]:
        """Returns up to `count` aspects, best first. instruction: (D,), by `embed_plainly`, like the wordings."""
        ends = np.cumsum([len(aspect.instructions) for aspect in self._bank])
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
