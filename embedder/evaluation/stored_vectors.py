"""Vectors of texts, encoded once and kept in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from embedder.encoder import Encoder


class StoredVectors:
    """Vectors of texts without an instruction, as in an index; the model encodes each text once.

    steps: None means the model's default for documents.
    """

    def __init__(self, encoder: Encoder, *, steps: int | None = None) -> None:
        self._encoder, self._steps = encoder, steps
        self._rows: dict[str, np.ndarray] = {}

    def read(self, texts: Sequence[str]) -> int:
        """Encodes the texts that are not stored yet. Returns their number."""
        if missing := [text for text in dict.fromkeys(texts) if text not in self._rows]:
            vectors = self._encoder.encode_documents(missing, instruction="", steps=self._steps)
            self._rows |= zip(missing, vectors, strict=True)
        return len(missing)

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """The stored vectors of texts: (n, D), L2-normalised."""
        self.read(texts)
        return np.stack([self._rows[text] for text in texts])
