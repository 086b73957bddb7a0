"""Embeds sentences and questions in the vector space of a collection's documents, with a cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.ports.parts import Embedder
from embedder.lru import LRUCache

KEPT_SENTENCES = 4_096
STEPS = 1  # per sentence, as for highlights; 0 in collections with base-model vectors


class SentenceVectors:
    """Embeds sentences, with a cache of `KEPT_SENTENCES` vectors. Thread-safe."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: LRUCache[tuple[str, int, str], np.ndarray] = LRUCache(KEPT_SENTENCES)

    def of(self, texts: Sequence[str], *, instruction: str, is_plain: bool) -> np.ndarray:
        """Embeds texts as documents: (n, D). instruction: of the collection's documents. is_plain: by the base model
        (0 steps)."""
        steps = 0 if is_plain else STEPS
        known = {text: self._kept.get((instruction, steps, text)) for text in dict.fromkeys(texts)}
        new = [text for text, vector in known.items() if vector is None]
        if new:
            embedded = np.asarray(
                self._embedder.embed_documents(new, instruction=instruction, steps=steps), dtype=np.float32
            )
            # Copies: a cached view would keep the array of the whole call in memory.
            fresh = {text: vector.copy() for text, vector in zip(new, embedded, strict=True)}
            self._kept.keep({(instruction, steps, text): vector for text, vector in fresh.items()})
            known |= fresh
        if not texts:
            return np.zeros((0, self._embedder.info.dimension), dtype=np.float32)
        return np.stack([vector for text in texts if (vector := known[text]) is not None])
