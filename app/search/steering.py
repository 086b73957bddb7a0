"""Words that a person wants more of, or less: the query's vector is turned towards each of them, or away from it.

Turned by an angle and not moved by a sum, so that what is asked for stays in sight however many words there are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

_WORD = re.compile(r"\w+")
FULL_BIAS = 5.0  # from this number on, either way, a word has all of its effect
# At 10 degrees ranks move half as far, at 30 fewer of the first ten stay.
WORD_ANGLE = math.radians(25)
MOST_ANGLE = math.radians(30)  # of all words together: what was asked has a cosine of 0.866 at least
_SHORTEST = 1e-6


def strength_of(bias: float) -> float:
    """From -1, away from the word in full, to 1."""
    return max(-1.0, min(1.0, bias / FULL_BIAS))


def steer_words(query: str, token_bias: Mapping[str, float]) -> str:
    """What is searched for by words: with those that are to count more, without those that are to count less. A query
    of nothing else stays as it is."""
    more = [word for word, bias in token_bias.items() if bias > 0]
    less = {word.lower() for word, bias in token_bias.items() if bias < 0}
    kept = _WORD.sub(lambda found: "" if found[0].lower() in less else found[0], query) if less else query
    return " ".join([kept if kept.strip() else query, *more])


def steer(vector: ArrayLike, words: Sequence[tuple[float, ArrayLike]]) -> list[float]:
    """`vector`, and each word's bias with its vector in the same space. A unit vector; the same where no word says
    anything that the query does not."""
    asked = np.asarray(vector, dtype=np.float64)
    asked /= max(float(np.linalg.norm(asked)), _SHORTEST)
    turned = np.zeros_like(asked)
    for bias, word in words:
        own = np.asarray(word, dtype=np.float64)
        own = own - (own @ asked) * asked  # what the word says beside the query
        length = float(np.linalg.norm(own))
        if length > _SHORTEST:
            turned += strength_of(bias) * own / length
    length = float(np.linalg.norm(turned))
    if length <= _SHORTEST:
        return asked.tolist()
    angle = min(WORD_ANGLE * length, MOST_ANGLE)
    return (math.cos(angle) * asked + math.sin(angle) * turned / length).tolist()
