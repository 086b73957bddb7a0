"""How well texts of the caller's own answer a query: their cosine under an instruction, and how alike both are among
named values.

p(v | x) is the softmax over values of cos(x, v) / temperature, of a value's phrases the nearest; two texts are as alike
as the cosine of their p. Knows no model: vectors come in, scores go out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from embedder.errors import TextError

# Values are read in the plain space, where one that a text says is nearer, and under an instruction among texts and
# names that are embedded under it. Chosen on the tuning half of the triplets: docs/evaluation/lens-values.md.
TEMPERATURE = 0.07
INSTRUCTED_TEMPERATURE = 0.03  # under an instruction all texts are near to each other
MENTION = 0.15  # what a text gains in cosine for a value that it says itself
VALUE_WEIGHT = 0.6  # of 1, the cosine has the rest
MIN_VALUES, MAX_VALUES, MAX_PHRASES = 2, 200, 1_000


@dataclass(frozen=True, slots=True)
class ValuePhrases:
    """The phrases of values that were written as `name` or as `name = synonym, synonym`."""

    phrases: tuple[str, ...]
    owners: tuple[int, ...]  # the number of the value of each phrase, ascending

    @classmethod
    def parse(cls, written: Sequence[str]) -> Self:
        """Raises TextError."""
        if not MIN_VALUES <= len(written) <= MAX_VALUES:
            raise TextError(f"A lens tells {MIN_VALUES} to {MAX_VALUES} values apart, not {len(written)}.")
        phrases: list[str] = []
        owners: list[int] = []
        for at, value in enumerate(written):
            name, _, synonyms = value.partition("=")
            if not name.strip():
                raise TextError(
                    f"A value has no name: {value[:40]!r}. Write it as `name` or `name = synonym, synonym`."
                )
            own = list(dict.fromkeys(each.strip() for each in (name, *synonyms.split(",")) if each.strip()))
            phrases += own
            owners += [at] * len(own)
        if len(phrases) > MAX_PHRASES:
            raise TextError(f"The values have more than {MAX_PHRASES:,} phrases in all: leave synonyms out.")
        return cls(tuple(phrases), tuple(owners))


def cosine_scores(query: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """(D,) and (n, D), L2-normalised -> (n,)."""
    return np.asarray(documents, dtype=np.float32) @ np.asarray(query, dtype=np.float32)


def reads_values_under(instruction: str, default: str) -> bool:
    """Whether values are read under it, too: not under the model's own, which is for all questions."""
    return instruction not in ("", default)


def value_cosines(
    vectors: np.ndarray, phrases: np.ndarray, value_of_phrase: Sequence[int], mentioned: np.ndarray | None = None
) -> np.ndarray:
    """(n, V) cosine of every text and every value, of whose phrases the nearest counts.

    vectors: (n, D); phrases: (P, D), both L2-normalised; value_of_phrase: the value 0..V-1 of each phrase, ascending.
    mentioned: (n, P) bool, whether the text says the phrase; such a one is nearer.
    """
    cosines = vectors @ phrases.T  # (n, P)
    if mentioned is not None:
        cosines = cosines + MENTION * mentioned
    starts = np.flatnonzero(np.diff(np.asarray(value_of_phrase), prepend=-1))
    return np.maximum.reduceat(cosines, starts, axis=1)


def distributions(cosines: np.ndarray, temperature: float = TEMPERATURE) -> np.ndarray:
    """softmax over values: (n, V) -> (n, V)."""
    scaled = cosines / temperature
    exponents = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


def similarities(distributions: np.ndarray, query: np.ndarray) -> np.ndarray:
    """(n, V) and (V,) -> (n,): the cosine of each distribution and the query's."""
    lengths = np.linalg.norm(distributions, axis=1) * np.linalg.norm(query)
    return distributions @ query / np.maximum(lengths, 1e-12)


def value_similarities(
    texts: np.ndarray,
    phrases: np.ndarray,
    owners: Sequence[int],
    mentioned: np.ndarray | None = None,
    *,
    temperature: float = TEMPERATURE,
) -> np.ndarray:
    """texts (1 + n, D), the query first; phrases (P, D) -> (n,): how alike each is to the query among the values."""
    p = distributions(value_cosines(texts, phrases, owners, mentioned), temperature)
    return similarities(p[1:], p[0])


def joined_scores(
    scores: np.ndarray,
    owners: Sequence[int],
    mentioned: np.ndarray,
    plain: np.ndarray,
    instructed: np.ndarray | None = None,
) -> np.ndarray:
    """(n,) scores joined with likeness among the values, read in the plain space and, where there is one, under the
    instruction.

    plain, instructed: (1 + n + P, D), of the query, the texts, and the phrases of the values.
    """
    count = 1 + len(scores)
    alike = [value_similarities(plain[:count], plain[count:], owners, mentioned)]
    if instructed is not None:
        texts, phrases = instructed[:count], instructed[count:]
        alike.append(value_similarities(texts, phrases, owners, temperature=INSTRUCTED_TEMPERATURE))
    return (1 - VALUE_WEIGHT) * scores + VALUE_WEIGHT * np.mean(alike, axis=0)
