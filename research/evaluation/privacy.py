"""How much of a text can be read back from its stored vector, before and after what may protect it, and at what cost.

The attacker has texts of the same kind, and their vectors, and fits a linear map from vectors to words, or a decoder
that writes texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from tokenizers import Tokenizer

from embedder.encoder import Encoder
from embedder.errors import DataError
from embedder.evaluation.bootstrap import BootstrapEstimate, draw_weights, estimate, means
from embedder.evaluation.data import files_of, is_tuning, read_rows, spread
from embedder.evaluation.report import show_estimate, table
from embedder.training.words import STOP_WORDS
from research.evaluation.generative_attacker import DecoderConfig, GenerativeAttacker

_WORD = re.compile(r"[^\W\d_]{2,}|\d+")
_RIDGE = 0.1  # of vectors of length 1
_LEAST_TEXTS = 2  # that hold a word which the attacker learns
_NEAREST = 10
_MOST_CHARACTERS = 300
_LARGEST_CODE = 127
_LEAST_OWN = 20  # texts of an attacker


@dataclass(frozen=True, slots=True)
class Leak:
    """all, telling: F1 ×100 of the words that were read back, of all words and without stop words. exact: texts (×100)
    of which every word was read, in its order. kept: of the ten nearest other texts, how many are still found (×100).
    read: what was written for each text. What an attacker does not tell is None, or empty."""

    protection: str
    all: BootstrapEstimate
    telling: BootstrapEstimate
    kept: float | None = None
    attacker: str = "linear"
    exact: BootstrapEstimate | None = None
    read: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AttackTexts:
    """The attacker's own texts, and those that are attacked; no text is both, in whatever case and punctuation."""

    own: tuple[str, ...]
    tested: tuple[str, ...]


def words_of(text: str) -> frozenset[str]:
    return frozenset(word_sequence(text))


def word_sequence(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.lower()))


def read_texts(folder: Path, *, limit: int | None = None) -> list[str]:
    """Different texts of all labelled files, at even distances. Raises DataError where there are too few."""
    found = {row["text"] for path in files_of(folder, "labels") for row in read_rows(path)}
    short = sorted(text for text in found if len(text) <= _MOST_CHARACTERS and words_of(text))
    texts = spread(short, limit)
    if len(texts) < _LEAST_OWN:
        raise DataError(f"{folder} holds {len(texts)} labelled texts; an attacker needs at least {_LEAST_OWN}.")
    return texts


def read_attack_texts(folder: Path, *, limit: int, own: int | None = None, further: Path | None = None) -> AttackTexts:
    """`limit` texts of `folder`, half of them (by the hash of the text) the attacker's, half tested.

    own: how many the attacker has; beyond its half, at even distances from what else the same half of `folder` holds,
    and from `further`, another folder with labelled files. None: its half, and all of `further`. Raises DataError
    where there are too few.
    """
    texts = read_texts(folder, limit=limit)
    tested = tuple(text for text in texts if not is_tuning(text))
    known = {word_sequence(text) for text in tested}
    half = [text for text in texts if is_tuning(text) and word_sequence(text) not in known]
    more = set() if own is None else {text for text in read_texts(folder) if is_tuning(text)}
    more |= set() if further is None else set(read_texts(further))
    more -= set(half)
    pool = sorted(text for text in more if word_sequence(text) not in known)
    if own is None:
        return AttackTexts((*half, *pool), tested)
    there = len(half) + len(pool)
    if not _LEAST_OWN <= own <= there:
        raise DataError(
            f"The attacker cannot have {own} texts: it needs at least {_LEAST_OWN}, and {folder}"
            f"{f' and {further} hold' if further else ' holds'} {there} that are not tested. Name a number between, or "
            "a folder with more texts (--attacker-data)."
        )
    half = spread(half, own)
    return AttackTexts((*half, *spread(pool, own - len(half))), tested)


def protections(seed: int) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """What is stored in place of a vector (n, D) of length 1. Noise: its length against the vector's."""

    def with_noise(share: float) -> Callable[[np.ndarray], np.ndarray]:
        rng = np.random.default_rng(seed)  # for all calls: the attacker's vectors have no tested one's noise

        def add(vectors: np.ndarray) -> np.ndarray:
            noise = rng.standard_normal(vectors.shape)
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
        entries = [[places[word] for word in each if word in places] for each in words]
        rows = np.repeat(np.arange(len(words)), [len(each) for each in entries])
        columns = np.array([at for each in entries for at in each], dtype=np.int64)
        shape = (len(words), len(places))
        held = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)  # of 20,000 texts, a gigabyte if dense
        self._mean = np.asarray(held.mean(axis=0)).ravel()
        self._centre = vectors.mean(axis=0)
        cut = len(words) * 4 // 5
        self._weights = self._fit(vectors[:cut], held[:cut])
        self.threshold = self._choose_threshold(vectors[cut:], words[cut:])
        self._weights = self._fit(vectors, held)

    def _fit(self, vectors: np.ndarray, held: csr_matrix) -> np.ndarray:
        centred = vectors - self._centre
        square = centred.T @ centred + _RIDGE * np.eye(vectors.shape[1])
        return np.linalg.solve(square, (held.T @ centred).T - np.outer(centred.sum(axis=0), self._mean))

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
    encoder: Encoder,
    texts: AttackTexts,
    *,
    steps: int | None = None,
    tokenizer: Tokenizer | None = None,
    decoder: DecoderConfig | None = None,
    resamples: int = 1000,
    seed: int = 0,
    show_progress: bool = False,
) -> Iterator[Leak]:
    """Of documents' vectors as they are stored, as soon as each is measured: protection by protection, then what is
    read without the text's vector.

    tokenizer: the model's own; with it, the generative attacker attacks, too. decoder: that attacker's settings.
    """
    own_vectors, vectors = (
        encoder.encode_documents(each, steps=steps, show_progress=show_progress) for each in (texts.own, texts.tested)
    )
    own_words = [words_of(text) for text in texts.own]
    score = _Scorer(texts.tested, resamples=resamples, seed=seed)
    near = _nearest(vectors, vectors)
    written: dict[str, list[str]] = {}
    for name, protect in protections(seed).items():
        own_stored, stored = protect(own_vectors), protect(vectors)
        found = _nearest(vectors, stored)
        kept = 100 * float(np.mean([len(set(a) & set(b)) / _NEAREST for a, b in zip(near, found, strict=True)]))
        yield score.of_words(name, LinearAttacker(own_stored, own_words).read(stored), kept=kept)
        if tokenizer is not None:
            attacker = GenerativeAttacker(
                own_stored,
                texts.own,
                tokenizer,
                config=decoder,
                seed=seed,
                device=encoder.device,
                progress=f"Attacker of {name}" if show_progress else None,
            )
            written[name] = attacker.read(stored)
            yield score.of_texts(name, written[name], kept=kept)
    most = LinearAttacker(np.zeros_like(own_vectors), own_words)  # who knows no vector says what is frequent
    yield score.of_words("no vector", most.read(np.zeros_like(vectors)))
    if tokenizer is not None:
        # Texts are in alphabetical order: the next one may begin alike.
        yield score.of_texts("another's vector", np.roll(written["none"], len(written["none"]) // 2).tolist())


def soft_token_leak(
    encoder: Encoder, texts: AttackTexts, *, steps: int, words: int = 10, resamples: int = 1000, seed: int = 0
) -> Leak:
    """Of who sees the words of soft tokens, and says the most probable ones; of the same texts as `measure_leaks`."""
    read = []
    for text in texts.tested:
        shares: dict[str, float] = {}
        for step in encoder.refine(text, instruction="", steps=steps).steps:
            for token in step.tokens:
                shares[token.token] = shares.get(token.token, 0.0) + token.probability
        read.append(frozenset(sorted(shares, key=lambda word: -shares[word])[:words]))
    return _Scorer(texts.tested, resamples=resamples, seed=seed).of_words(f"soft tokens, {words} words", read)


class _Scorer:
    """Compares what was read with the tested texts; all attackers with the same resamples of them."""

    def __init__(self, texts: Sequence[str], *, resamples: int, seed: int) -> None:
        self._sequences = [word_sequence(text) for text in texts]
        self._words = [frozenset(sequence) for sequence in self._sequences]
        self._weights = draw_weights("privacy", len(texts), resamples=resamples, seed=seed)

    def of_words(self, protection: str, read: Sequence[frozenset[str]], *, kept: float | None = None) -> Leak:
        return Leak(protection, *self._f1(read), kept)

    def of_texts(self, protection: str, read: Sequence[str], *, kept: float | None = None) -> Leak:
        pairs = zip(read, self._sequences, strict=True)
        exact = self._estimate(np.array([word_sequence(text) == sequence for text, sequence in pairs]))
        figures = self._f1([words_of(text) for text in read])
        return Leak(protection, *figures, kept, attacker="generative", exact=exact, read=tuple(read))

    def _f1(self, read: Sequence[frozenset[str]]) -> tuple[BootstrapEstimate, BootstrapEstimate]:
        telling = f1_of([each - STOP_WORDS for each in read], [each - STOP_WORDS for each in self._words])
        return self._estimate(f1_of(read, self._words)), self._estimate(telling)

    def _estimate(self, values: np.ndarray) -> BootstrapEstimate:
        return estimate(100 * means(self._weights, values))


def _nearest(queries: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Rows of the ten nearest of `stored` to each query, which is not its own neighbour (n, 10)."""
    scores = queries @ stored.T
    np.fill_diagonal(scores, -np.inf)
    return np.argpartition(-scores, _NEAREST, axis=1)[:, :_NEAREST]


def leak_table(leaks: Sequence[Leak]) -> str:
    """Markdown: linear attacker first, then the generative one."""
    columns = ("attacker", "stored", "F1 of all words", "without stop words", "exact texts", "of the ten nearest, kept")
    rows = [
        [
            each.attacker,
            each.protection,
            show_estimate(each.all),
            show_estimate(each.telling),
            "–" if each.exact is None else show_estimate(each.exact),
            "–" if each.kept is None else f"{each.kept:.1f}",
        ]
        for each in sorted(leaks, key=lambda each: each.attacker != "linear")
    ]
    return table(columns, rows)


def example_table(leaks: Sequence[Leak], texts: AttackTexts, *, count: int = 6) -> str:
    """Markdown: tested texts, and what the generative attacker wrote of their plain and their binary vectors; from the
    best read on, at even distances down the ranking. Empty where it did not attack these."""
    written = {each.protection: each.read for each in leaks if each.read}
    if not {"none", "binary"} <= written.keys():
        return ""
    values = f1_of([words_of(text) for text in written["none"]], [words_of(text) for text in texts.tested])
    rows = spread(np.argsort(-values, kind="stable").tolist(), count)
    cells = [[texts.tested[row], written["none"][row], written["binary"][row]] for row in rows]
    return table(("text", "read from its vector", "from its binary vector"), cells)
