"""How well texts of the caller's own answer a query: their cosine under an instruction, and how alike both are among
named values.

p(v | x) is the softmax over values of cos(x, v) / temperature, of a value's phrases the nearest; two texts are as alike
as the cosine of their p. Knows no model: vectors come in, scores go out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from embedder.errors import TextError
from embedder.text.sentences import sentences_to_read

# Values are read in the plain space, where one that a text says is nearer, and under an instruction among texts and
# names that are embedded under it. Chosen on the tuning half of the triplets: docs/evaluation/lens-values.md.
TEMPERATURE = 0.07
INSTRUCTED_TEMPERATURE = 0.03  # under an instruction all texts are near to each other
MENTION = 0.15  # what a text gains in cosine for a value that it says itself
VALUE_WEIGHT = 0.6  # of 1, the cosine has the rest
# Sentences of a text are read apart, too, where they have little to do with each other: the mean cosine of their plain
# vectors, the temperature of their weights, and what the whole text keeps. Chosen on the tuning half:
# docs/decisions/0066-values-sentence-by-sentence.md.
MOST_ALIKE = 0.2
SENTENCE_TEMPERATURE = 0.04
WHOLE_SHARE = 1 / 3
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


@dataclass(frozen=True, slots=True)
class Parts:
    """Texts whose values are read under an instruction: all of them whole, then sentences.

    A text may say several unrelated things, of which the instruction asks for one; the whole text's vector lies between
    them.
    """

    texts: tuple[str, ...]
    owners: tuple[int, ...] = ()  # the number of the text of each sentence, ascending

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """With all sentences, of which `unrelated` are those to read."""
        sentences: list[str] = []
        owners: list[int] = []
        for at, text in enumerate(texts):
            found = sentences_to_read(text)
            if len(found) > 1:
                sentences += found
                owners += [at] * len(found)
        return cls((*texts, *sentences), tuple(owners))

    @property
    def text_count(self) -> int:
        return len(self.texts) - len(self.owners)

    def to_embed(self, phrases: Sequence[str], instruction: str) -> tuple[str, ...]:
        """In the plain space: with the phrases of values and, where there are sentences, the instruction itself."""
        return (*self.texts, *phrases, *([instruction] if self.owners else ()))

    def unrelated(self, plain: np.ndarray) -> tuple[Self, np.ndarray]:
        """Without the sentences of texts whose sentences have to do with each other; and the vectors (N, D) of
        `to_embed`, of what is left."""
        count, owners = self.text_count, np.asarray(self.owners, dtype=np.int64)
        is_kept = np.zeros(len(owners), dtype=bool)
        for at in np.unique(owners):
            own = plain[count : len(self.texts)][owners == at]
            is_kept[owners == at] = mean_cosine(own) < MOST_ALIKE
        rows = [*range(count), *(count + np.flatnonzero(is_kept)), *range(len(self.texts), len(plain))]
        if len(owners) and not is_kept.any():
            rows.pop()  # the instruction
        left = type(self)(
            tuple(self.texts[row] for row in rows if row < len(self.texts)), tuple(owners[is_kept].tolist())
        )
        return left, plain[rows]

    def join(self, cosines: np.ndarray, near: np.ndarray) -> np.ndarray:
        """(n + S, V) of texts and sentences to (n, V): of a text with sentences s a third of its own cosine with a
        value, and two thirds of τ log Σ_s w_s exp(cosine_s / τ), where w = softmax(near / τ).

        near: (S,), the cosine of each sentence under the instruction and the instruction's plain vector.
        """
        joined = np.array(cosines[: self.text_count], dtype=np.float64)
        sentences, owners = cosines[self.text_count :] / SENTENCE_TEMPERATURE, np.asarray(self.owners)
        for at in np.unique(owners):
            logits = near[owners == at].astype(np.float64) / SENTENCE_TEMPERATURE
            weighed = sentences[owners == at] + (logits - np.logaddexp.reduce(logits))[:, None]
            mixed = SENTENCE_TEMPERATURE * np.logaddexp.reduce(weighed, axis=0)
            joined[at] = WHOLE_SHARE * joined[at] + (1 - WHOLE_SHARE) * mixed
        return joined


def mean_cosine(vectors: Any) -> Any:
    """Among the rows (n, D), n above 1, of an array or a tensor, L2-normalised; a number of the same kind."""
    count = len(vectors)
    return ((vectors @ vectors.T).sum() - count) / (count * (count - 1))


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
    parts: Parts | None = None,
    near: np.ndarray | None = None,
) -> np.ndarray:
    """texts (1 + n, D), the query first; phrases (P, D) -> (n,): how alike each is to the query among the values.

    parts, near: where sentences are among the texts, see `Parts.join`.
    """
    cosines = value_cosines(texts, phrases, owners, mentioned)
    if parts is not None and near is not None:
        cosines = parts.join(cosines, near)
    p = distributions(cosines, temperature)
    return similarities(p[1:], p[0])


def joined_scores(
    scores: np.ndarray,
    owners: Sequence[int],
    mentioned: np.ndarray,
    plain: np.ndarray,
    instructed: np.ndarray | None = None,
    *,
    parts: Parts,
) -> np.ndarray:
    """(n,) scores joined with likeness among the values, read in the plain space and, where there is one, under the
    instruction.

    plain, instructed: (N + P, D), of the texts of `parts`, the query first, and of the phrases of the values; `plain`
    as `Parts.unrelated` has it.
    """
    count = len(parts.texts)
    near = None
    if parts.owners and instructed is not None:
        plain, own = plain[:-1], plain[-1]
        near = instructed[parts.text_count : count] @ own
    alike = [value_similarities(plain[:count], plain[count:], owners, mentioned, parts=parts, near=near)]
    if instructed is not None:
        read = value_similarities(
            instructed[:count], instructed[count:], owners, temperature=INSTRUCTED_TEMPERATURE, parts=parts, near=near
        )
        alike.append(read)
    return (1 - VALUE_WEIGHT) * scores + VALUE_WEIGHT * np.mean(alike, axis=0)
