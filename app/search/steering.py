"""Boosts or suppresses words: rotates the query's vector towards each boosted word and away from suppressed ones.

A rotation by a limited angle, not a sum, keeps the vector near the query however many words there are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

_WORD = re.compile(r"\w+")
FULL_BIAS = 5.0  # a bias beyond it, positive or negative, has no further effect
# At 10 degrees ranks move half as far; at 30 degrees more of the first ten hits are replaced.
WORD_ANGLE = math.radians(25)
MOST_ANGLE = math.radians(30)  # for all words together: the result's cosine with the query is at least 0.866
_SHORTEST = 1e-6


def strength_of(bias: float) -> float:
    """Scales a bias to -1 (fully away from the word) to 1 (fully towards it)."""
    return max(-1.0, min(1.0, bias / FULL_BIAS))


def steer_words(query: str, token_bias: Mapping[str, float]) -> str:
    """The query for BM25: adds boosted words and removes suppressed ones, unless no word would remain."""
    more = [word for word, bias in token_bias.items() if bias > 0]
    less = {word.lower() for word, bias in token_bias.items() if bias < 0}
    kept = _WORD.sub(lambda match: "" if match[0].lower() in less else match[0], query) if less else query
    return " ".join([kept if kept.strip() else query, *more])


def steer(vector: ArrayLike, words: Sequence[tuple[float, ArrayLike]]) -> list[float]:
    """Rotates `vector` (D,) by the words, and returns a unit vector.

    words: bias and vector (D,) of each, in the same space. Without a word that differs in direction from the query, the
    result is the normalised query.
    """
    query = np.asarray(vector, dtype=np.float64)
    query /= max(float(np.linalg.norm(query)), _SHORTEST)
    direction = np.zeros_like(query)
    for bias, word in words:
        rest = np.asarray(word, dtype=np.float64)
        rest = rest - (rest @ query) * query  # the part orthogonal to the query
        length = float(np.linalg.norm(rest))
        if length > _SHORTEST:
            direction += strength_of(bias) * rest / length
    length = float(np.linalg.norm(direction))
    if length <= _SHORTEST:
        return query.tolist()
    angle = min(WORD_ANGLE * length, MOST_ANGLE)
    return (math.cos(angle) * query + math.sin(angle) * direction / length).tolist()
