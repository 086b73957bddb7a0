"""Sentences and questions as vectors of one space: that of a collection's documents. What was seen lately is kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.ports.parts import Embedder
from embedder.lru import LRUCache

KEPT_SENTENCES = 4_096
STEPS = 1  # of a sentence; 0 where chunks have vectors of the base model, as for highlights


class SentenceVectors:
    """Safe to use from several threads."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: LRUCache[tuple[str, int, str], np.ndarray] = LRUCache(KEPT_SENTENCES)

    def of(self, texts: Sequence[str], *, instruction: str, is_plain: bool) -> np.ndarray:
        """(n, D), embedded as documents under this instruction. `is_plain`: by the base model."""
        steps = 0 if is_plain else STEPS
        known = {text: self._kept.get((instruction, steps, text)) for text in dict.fromkeys(texts)}
        new = [text for text, vector in known.items() if vector is None]
        if new:
            embedded = np.asarray(
                self._embedder.embed_documents(new, instruction=instruction, steps=steps), dtype=np.float32
            )
            # Copies: a row that is kept would keep those of the whole call.
            found = {text: vector.copy() for text, vector in zip(new, embedded, strict=True)}
            self._kept.keep({(instruction, steps, text): vector for text, vector in found.items()})
            known |= found
        if not texts:
            return np.zeros((0, self._embedder.info.dimension), dtype=np.float32)
        return np.stack([vector for text in texts if (vector := known[text]) is not None])
