"""Loads the reader of answers when the first question is asked."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from embedder.extensions.answer_reader import SentenceScorer


class ShippedReader:
    """Scores sentences by how well they answer a question. Implements `SentenceReader` by the reader that the package
    ships. Takes some 100 MB of memory once it is used."""

    language = "English"

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def score(self, question: str, sentences: Sequence[str]) -> np.ndarray:
        with self._lock:  # two first questions load it once
            reader = self._reader
        return reader.score(question, sentences)

    @cached_property
    def _reader(self) -> SentenceScorer:
        from embedder.extensions.answer_reader import load_answer_reader  # imports torch

        return load_answer_reader()
