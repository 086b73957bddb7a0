"""Scores the caller's own texts for a query: cosine under an instruction, and similarity among named values.

p(v | x) is the softmax over values v of cos(x, v) / temperature, where the nearest phrase of a value counts. The
similarity of two texts is the cosine of their p. Needs no model: takes vectors, returns scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from embedder.errors import TextError
from embedder.text.sentences import sentences_to_read

# Chosen on the tuning half of the triplets: docs/evaluation/lens-values.md.
TEMPERATURE = 0.07  # without an instruction
INSTRUCTED_TEMPERATURE = 0.03  # lower, because all texts are close to each other under an instruction
MENTION = 0.15  # without an instruction: added to the cosine of a value that the text mentions
VALUE_WEIGHT = 0.6  # of the similarity among values; the cosine of the texts has the rest
# If a text's sentences are unrelated, they are also embedded one by one. Chosen on the tuning half:
# docs/decisions/0066-values-sentence-by-sentence.md.
MOST_ALIKE = 0.2  # sentences are related from this mean cosine of their plain vectors on
SENTENCE_TEMPERATURE = 0.04  # of the sentences' weights
WHOLE_SHARE = 1 / 3  # weight of the whole text; its sentences have the rest
MIN_VALUES, MAX_VALUES, MAX_PHRASES = 2, 200, 1_000


@dataclass(frozen=True, slots=True)
class ValuePhrases:
    """The phrases of values, written as `name` or as `name = synonym, synonym`."""

    phrases: tuple[str, ...]
    owners: tuple[int, ...]  # index of each phrase's value, ascending

    @classmethod
    def parse(cls, written: Sequence[str]) -> Self:
        """Raises TextError."""
        if not MIN_VALUES <= len(written) <= MAX_VALUES:
            raise TextError(f"A lens has {MIN_VALUES} to {MAX_VALUES} values, not {len(written)}.")
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
            raise TextError(f"The values have more than {MAX_PHRASES:,} phrases in all. Remove synonyms.")
        return cls(tuple(phrases), tuple(owners))


@dataclass(frozen=True, slots=True)
class Parts:
    """Texts to compare by values under an instruction: all whole texts first, then sentences.

    A text may say several unrelated things while the instruction asks for one; the whole text's vector mixes them.
    """

    texts: tuple[str, ...]
    owners: tuple[int, ...] = ()  # index of each sentence's text, ascending

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """The texts with all their sentences; `unrelated` drops unneeded ones."""
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
        """Lists the texts to embed without an instruction: texts, phrases of values and, if there are sentences, the
        instruction."""
        return (*self.texts, *phrases, *([instruction] if self.owners else ()))

    def unrelated(self, plain: np.ndarray) -> tuple[Self, np.ndarray]:
        """Drops the sentences of texts whose sentences are related. Returns the remaining parts and their rows (N, D)
        of `plain`, the vectors of `to_embed`."""
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
        """Combines the cosines of texts and sentences, (n + S, V), into (n, V).

        For a text with sentences s: a third of its own cosine with a value, plus two thirds of τ log Σ_s w_s
        exp(cosine_s / τ), where w = softmax(near / τ).

        near: (S,), the cosine of each sentence under the instruction with the instruction's plain vector.
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
    """Mean cosine of all pairs of rows (n, D), n > 1, L2-normalised. Array or tensor; returns a number of the same
    kind."""
    count = len(vectors)
    return ((vectors @ vectors.T).sum() - count) / (count * (count - 1))


def cosine_scores(query: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """The cosine of the query (D,) with each document (n, D): (n,). Both must be L2-normalised."""
    return np.asarray(documents, dtype=np.float32) @ np.asarray(query, dtype=np.float32)


def reads_values_under(instruction: str, default: str) -> bool:
    """Whether values are also compared under this instruction: not under the model's default, which fits any
    question."""
    return instruction not in ("", default)


def value_cosines(
    vectors: np.ndarray, phrases: np.ndarray, value_of_phrase: Sequence[int], mentioned: np.ndarray | None = None
) -> np.ndarray:
    """Cosine (n, V) of every text and value; the nearest phrase of a value counts.

    vectors: (n, D); phrases: (P, D), both L2-normalised. value_of_phrase: the value 0..V-1 of each phrase, ascending.
    mentioned: (n, P) bool, whether the text mentions the phrase; adds MENTION to the cosine.
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
    """The cosine of each distribution with the query's: (n, V) and (V,) -> (n,)."""
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
    """Similarity of each text to the query among the values: texts (1 + n, D), the query first; phrases (P, D) -> (n,).

    parts, near: for texts with sentences, see `Parts.join`.
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
    """Combines scores (n,) with the similarity among values, without the instruction and, if given, under it.

    plain, instructed: (N + P, D), vectors of the texts of `parts` (query first) and of the phrases; `plain` as returned
    by `Parts.unrelated`.
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
