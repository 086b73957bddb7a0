"""Values from what the model makes of texts under an instruction: the words of its soft tokens, those of one sense
joined. Knows neither model nor index."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from app.search.soft_tokens import group_refinement
from embedder.refinement import Refinement

WORDS_PER_TEXT = 5
MOST_VALUES = 10
_LEAST_TEXTS, _MOST_SHARE = 2, 0.6  # a word of nearly all texts belongs to the instruction, and tells none apart
_ONE_SENSE = 0.6  # cosine of two words
_WORDS_LOOKED_AT = 60
_SHORTEST_WORD = 3


def values_of_words(refinements: Sequence[Refinement], embed: Callable[[list[str]], np.ndarray]) -> tuple[str, ...]:
    """Each as `word = other, other`, the most frequent first. `embed` gives (n, D) L2-normalised vectors of words."""
    texts: Counter[str] = Counter(word for each in refinements for word in _words(each))
    most = max(_MOST_SHARE * len(refinements), _LEAST_TEXTS)
    words = [word for word, count in texts.most_common() if _LEAST_TEXTS <= count <= most][:_WORDS_LOOKED_AT]
    if not words:
        return ()
    senses = _senses(words, embed(words))
    return tuple(f"{name} = {', '.join(others)}" if others else name for name, *others in senses[:MOST_VALUES])


def _words(refinement: Refinement) -> list[str]:
    """The heaviest of all steps that stand for a whole word of some meaning."""
    weights: defaultdict[str, float] = defaultdict(float)
    for group in group_refinement(refinement.steps):
        for token in group.tokens:
            if not token.is_stop_word and token.token.isalpha() and len(token.token) >= _SHORTEST_WORD:
                weights[token.token] += token.weight
    return sorted(weights, key=lambda word: (-weights[word], word))[:WORDS_PER_TEXT]


def _senses(words: Sequence[str], vectors: np.ndarray) -> list[list[str]]:
    """Each word joins the first sense whose first word is near to it, or begins one. vectors: (n, D)."""
    cosines = vectors @ vectors.T
    senses: list[list[int]] = []
    for at in range(len(words)):
        near = next((sense for sense in senses if cosines[at, sense[0]] >= _ONE_SENSE), None)
        if near is None:
            senses.append([at])
        else:
            near.append(at)
    return [[words[at] for at in sense] for sense in senses]
