"""Which phrases a text says itself: all their words, whatever their endings. Knows neither model nor index."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

_WORD = re.compile(r"[^\W\d_]{3,}")
_BEGINNING = 5  # letters that words of one stem have in common


def mentions(texts: Sequence[str], phrases: Sequence[str]) -> np.ndarray:
    """(n, P) bool. A phrase without a word of three letters is never found."""
    wanted = [_beginnings(phrase) for phrase in phrases]
    found = np.zeros((len(texts), len(phrases)), dtype=bool)
    for row, text in enumerate(texts):
        held = _beginnings(text)
        found[row] = [bool(words) and words <= held for words in wanted]
    return found


def _beginnings(text: str) -> frozenset[str]:
    """Short words count whole: *art* is not in *article*."""
    return frozenset(word[:_BEGINNING] for word in _WORD.findall(text.lower()))
