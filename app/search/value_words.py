"""Derives values from the soft tokens of texts under an instruction; words of one sense become one value. Knows neither
model nor index."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from app.search.soft_tokens import group_refinement
from embedder.refinement import Refinement

WORDS_PER_TEXT = 5
MOST_VALUES = 10
_LEAST_TEXTS, _MOST_SHARE = 2, 0.6  # a word of most texts comes from the instruction and distinguishes none of them
_ONE_SENSE = 0.6  # cosine from which two words have one sense
_WORDS_LOOKED_AT = 60
_SHORTEST_WORD = 3


def values_of_words(refinements: Sequence[Refinement], embed: Callable[[list[str]], np.ndarray]) -> tuple[str, ...]:
    """Returns values as `word` or `word = other, other`, the most frequent first.

    embed: returns L2-normalised vectors of words, (n, D).
    """
    texts: Counter[str] = Counter(word for refinement in refinements for word in _words(refinement))
    most = max(_MOST_SHARE * len(refinements), _LEAST_TEXTS)
    words = [word for word, count in texts.most_common() if _LEAST_TEXTS <= count <= most][:_WORDS_LOOKED_AT]
    if not words:
        return ()
    senses = _senses(words, embed(words))
    return tuple(f"{name} = {', '.join(others)}" if others else name for name, *others in senses[:MOST_VALUES])


def _words(refinement: Refinement) -> list[str]:
    """The words with the greatest weight over all steps, without stop words, short words and pieces of words."""
    weights: defaultdict[str, float] = defaultdict(float)
    for group in group_refinement(refinement.steps):
        for token in group.tokens:
            if not token.is_stop_word and token.token.isalpha() and len(token.token) >= _SHORTEST_WORD:
                weights[token.token] += token.weight
    return sorted(weights, key=lambda word: (-weights[word], word))[:WORDS_PER_TEXT]


def _senses(words: Sequence[str], vectors: np.ndarray) -> list[list[str]]:
    """Greedy clustering: each word joins the first sense whose first word is near, else starts a new one.
    vectors: (n, D)."""
    cosines = vectors @ vectors.T
    senses: list[list[int]] = []
    for at in range(len(words)):
        near = next((sense for sense in senses if cosines[at, sense[0]] >= _ONE_SENSE), None)
        if near is None:
            senses.append([at])
        else:
            near.append(at)
    return [[words[at] for at in sense] for sense in senses]
