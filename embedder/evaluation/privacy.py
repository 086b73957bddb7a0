"""How much of a text can be read back from its stored vector, before and after what may protect it, and at what cost.

The attacker has texts of the same kind, and their vectors, and fits a linear map from vectors to words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from embedder.encoder import Encoder
from embedder.evaluation.bootstrap import Estimate, draw_weights, estimate, means
from embedder.evaluation.data import DataError, files_of, is_tuning, read_rows, spread
from embedder.evaluation.report import table
from embedder.evaluation.word_lists import STOP_WORDS

_WORD = re.compile(r"[^\W\d_]{2,}|\d+")
_RIDGE = 0.1  # of vectors of length 1
_LEAST_TEXTS = 2  # that hold a word which the attacker learns
_NEAREST = 10
_MOST_CHARACTERS = 300
_LARGEST_CODE = 127


@dataclass(frozen=True, slots=True)
class Leak:
    """all, telling: F1 ×100 of the words that were read back, of all words and without stop words. kept: of the ten
    nearest other texts, how many are still found (×100)."""

    protection: str
    all: Estimate
    telling: Estimate
    kept: float | None


def words_of(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def read_texts(folder: Path, *, limit: int) -> list[str]:
    """Different texts of all labelled files, at even distances. Raises DataError where there are too few."""
    found = {row["text"] for path in files_of(folder, "labels") for row in read_rows(path)}
    short = sorted(text for text in found if len(text) <= _MOST_CHARACTERS and words_of(text))
    texts = spread(short, limit)
    if len(texts) < 20:
        raise DataError(f"{folder} holds {len(texts)} labelled texts; an attacker needs at least 20.")
    return texts


def protections(seed: int) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """What is stored in place of a vector (n, D) of length 1. Noise: its length against the vector's."""

    def with_noise(share: float) -> Callable[[np.ndarray], np.ndarray]:
        def add(vectors: np.ndarray) -> np.ndarray:
            noise = np.random.default_rng(seed).standard_normal(vectors.shape)
            return normalised(vectors + share * noise / np.sqrt(vectors.shape[1]))

        return add

    return {
        "none": lambda vectors: vectors,
        "int8": in_int8,
        "binary": lambda vectors: normalised(np.sign(vectors)),
        **{f"noise {share:g}": with_noise(share) for share in (0.25, 0.5, 1.0, 2.0)},
    }


def in_int8(vectors: np.ndarray) -> np.ndarray:
    scales = np.abs(vectors).max(axis=1, keepdims=True) / _LARGEST_CODE
    return normalised(np.round(vectors / scales) * scales)


def normalised(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)


class LinearAttacker:
    """Ridge regression from vectors to words; the threshold is chosen on texts it was not fitted on."""

    def __init__(self, vectors: np.ndarray, words: Sequence[frozenset[str]]) -> None:
        counts: dict[str, int] = {}
        for each in words:
            for word in each:
                counts[word] = counts.get(word, 0) + 1
        self.vocabulary = sorted(word for word, count in counts.items() if count >= _LEAST_TEXTS)
        places = {word: at for at, word in enumerate(self.vocabulary)}
        held = np.zeros((len(words), len(places)), dtype=np.float32)
        for row, each in enumerate(words):
            held[row, [places[word] for word in each if word in places]] = 1
        self._mean = held.mean(axis=0)
        self._centre = vectors.mean(axis=0)
        cut = len(words) * 4 // 5
        self._weights = self._fit(vectors[:cut], held[:cut])
        self.threshold = self._choose_threshold(vectors[cut:], words[cut:])
        self._weights = self._fit(vectors, held)

    def _fit(self, vectors: np.ndarray, held: np.ndarray) -> np.ndarray:
        centred = vectors - self._centre
        square = centred.T @ centred + _RIDGE * np.eye(vectors.shape[1])
        return np.linalg.solve(square, centred.T @ (held - self._mean))

    def _choose_threshold(self, vectors: np.ndarray, words: Sequence[frozenset[str]]) -> float:
        scores = self._scores(vectors)
        tried = np.linspace(0.05, 0.6, 12)
        return float(max(tried, key=lambda each: np.mean(f1_of(self._above(scores, each), words))))

    def _scores(self, vectors: np.ndarray) -> np.ndarray:
        return (vectors - self._centre) @ self._weights + self._mean

    def _above(self, scores: np.ndarray, threshold: float) -> list[frozenset[str]]:
        return [frozenset(self.vocabulary[at] for at in np.flatnonzero(row > threshold)) for row in scores]

    def read(self, vectors: np.ndarray) -> list[frozenset[str]]:
        return self._above(self._scores(vectors), self.threshold)


def f1_of(read: Sequence[frozenset[str]], words: Sequence[frozenset[str]]) -> np.ndarray:
    """Of each text (n,): 0 where nothing was read or nothing is there."""
    return np.array(
        [
            2 * len(one & other) / total if (total := len(one) + len(other)) else 0.0
            for one, other in zip(read, words, strict=True)
        ]
    )


def measure_leaks(
    encoder: Encoder, texts: Sequence[str], *, steps: int | None = None, resamples: int = 1000, seed: int = 0
) -> list[Leak]:
    """Of documents' vectors as they are stored. Texts of the tuning half are the attacker's own."""
    own, others = ([text for text in texts if is_tuning(text) == is_own] for is_own in (True, False))
    own_vectors, vectors = (encoder.encode_documents(each, steps=steps) for each in (own, others))
    own_words, words = ([words_of(text) for text in each] for each in (own, others))
    near = _nearest(vectors, vectors)
    leaks = []
    for name, protect in protections(seed).items():
        stored = protect(vectors)
        read = LinearAttacker(protect(own_vectors), own_words).read(stored)
        found = _nearest(vectors, stored)
        kept = 100 * float(np.mean([len(set(a) & set(b)) / _NEAREST for a, b in zip(near, found, strict=True)]))
        leaks.append(_leak(name, read, words, resamples=resamples, seed=seed, kept=kept))
    most = LinearAttacker(np.zeros_like(own_vectors), own_words)  # who knows no vector says what is frequent
    leaks.append(_leak("no vector", most.read(np.zeros_like(vectors)), words, resamples=resamples, seed=seed))
    return leaks


def soft_token_leak(
    encoder: Encoder, texts: Sequence[str], *, steps: int, words: int = 10, resamples: int = 1000, seed: int = 0
) -> Leak:
    """Of who sees the words of soft tokens, and says the most probable ones; of the same texts as `measure_leaks`."""
    others = [text for text in texts if not is_tuning(text)]
    read = []
    for text in others:
        shares: dict[str, float] = {}
        for step in encoder.refine(text, instruction="", steps=steps).steps:
            for token in step.tokens:
                shares[token.token] = shares.get(token.token, 0.0) + token.probability
        read.append(frozenset(sorted(shares, key=lambda word: -shares[word])[:words]))
    held = [words_of(text) for text in others]
    return _leak(f"soft tokens, {words} words", read, held, resamples=resamples, seed=seed)


def _leak(
    name: str,
    read: Sequence[frozenset[str]],
    words: Sequence[frozenset[str]],
    *,
    resamples: int,
    seed: int,
    kept: float | None = None,
) -> Leak:
    weights = draw_weights("privacy", len(words), resamples=resamples, seed=seed)
    telling = f1_of([each - STOP_WORDS for each in read], [each - STOP_WORDS for each in words])
    figures = [estimate(100 * means(weights, values)) for values in (f1_of(read, words), telling)]
    return Leak(name, figures[0], figures[1], kept)


def _nearest(queries: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Rows of the ten nearest of `stored` to each query, which is not its own neighbour (n, 10)."""
    scores = queries @ stored.T
    np.fill_diagonal(scores, -np.inf)
    return np.argpartition(-scores, _NEAREST, axis=1)[:, :_NEAREST]


def leak_table(leaks: Sequence[Leak]) -> str:
    rows = [
        [each.protection, _show(each.all), _show(each.telling), "–" if each.kept is None else f"{each.kept:.1f}"]
        for each in leaks
    ]
    return table(("stored", "F1 of all words", "without stop words", "of the ten nearest, kept"), rows)


def _show(found: Estimate) -> str:
    return f"{found.value:.1f} [{found.low:.1f}, {found.high:.1f}]"
