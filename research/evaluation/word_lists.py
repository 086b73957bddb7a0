"""Words that a person would connect with a label: those of its name, and those typical of the texts that bear it.

Made from labelled texts alone, so that every model is measured with the same lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import xlogy
from scipy.stats import chi2
from sklearn.feature_extraction.text import CountVectorizer

from embedder.training.words import STOP_WORDS

_WORD = r"(?u)\b[^\W\d_]{2,}\b"
_SIGNIFICANCE = 0.001  # of a word's being more frequent within a label than outside
_MIN_TEXTS = 2  # of a label that must hold a word; one text is an anecdote


def labels_of(row: Mapping, aspect: str) -> tuple[str, ...]:
    """A row's labels under an aspect; a row may have one, several or none."""
    value = row["labels"].get(aspect)
    return (value,) if isinstance(value, str) else tuple(value or ())


class WordLists:
    """Word lists for the labels of one task.

    rows: its labelled texts, `{text, labels: {aspect: value or [values]}}`.
    count: words per label, the most significant ones.
    """

    def __init__(self, rows: Sequence[Mapping], *, count: int = 30) -> None:
        self._rows = rows
        self._count = count
        self._texts = np.array([row["text"] for row in rows], dtype=object)
        vectorizer = CountVectorizer(binary=True, token_pattern=_WORD, stop_words=sorted(STOP_WORDS))
        self._holds = vectorizer.fit_transform(self._texts)  # (texts, words), sparse 0/1
        self._vocabulary = vectorizer.get_feature_names_out()
        self._analyze = vectorizer.build_analyzer()
        self._bearers: dict[str, dict[str, np.ndarray]] = {}

    def words_of(self, text: str) -> frozenset[str]:
        """The lower-cased words of a text or a label's name, without stop words."""
        return frozenset(self._analyze(text))

    def labels(self, aspect: str) -> list[str]:
        """All labels that rows have under the aspect."""
        return sorted(self._bearers_of(aspect))

    def typical_words(self, aspect: str, label: str, *, without: str) -> frozenset[str]:
        """Words that occur in significantly more of the label's texts than of the other labels' texts.

        without: the text to be measured; no row with this text takes part.
        """
        bearers = self._bearers_of(aspect)
        others = self._texts != without
        inside = bearers[label] & others
        outside = np.logical_or.reduce(list(bearers.values())) & ~bearers[label] & others
        total_in, total_out = int(inside.sum()), int(outside.sum())
        if not total_in or not total_out:
            return frozenset()
        with_in, with_out = self._count_texts(inside), self._count_texts(outside)
        score = likelihood_ratio(with_in, total_in, with_out, total_out)
        more = (with_in / total_in > with_out / total_out) & (with_in >= _MIN_TEXTS)
        significant = np.flatnonzero(more & (score > chi2.isf(_SIGNIFICANCE, df=1)))
        best = significant[np.lexsort((significant, -score[significant]))][: self._count]
        return frozenset(self._vocabulary[best])

    def _count_texts(self, chosen: np.ndarray) -> np.ndarray:
        """How many of the chosen texts hold each word."""
        return np.asarray(chosen.astype(np.int64) @ self._holds).ravel()

    def _bearers_of(self, aspect: str) -> dict[str, np.ndarray]:
        """Label -> which rows bear it."""
        if aspect not in self._bearers:
            found: dict[str, np.ndarray] = {}
            for place, row in enumerate(self._rows):
                for label in labels_of(row, aspect):
                    found.setdefault(label, np.zeros(len(self._rows), dtype=bool))[place] = True
            self._bearers[aspect] = found
        return self._bearers[aspect]


def likelihood_ratio(with_in: np.ndarray, total_in: int, with_out: np.ndarray, total_out: int) -> np.ndarray:
    """Dunning's G² of each word's 2x2 table: texts with and without it, inside and outside a label."""
    observed = np.stack([with_in, total_in - with_in, with_out, total_out - with_out]).astype(float)
    held = (with_in + with_out) / (total_in + total_out)
    expected = np.stack([total_in * held, total_in * (1 - held), total_out * held, total_out * (1 - held)])
    return 2 * xlogy(observed, np.divide(observed, expected, out=np.ones_like(observed), where=expected > 0)).sum(0)
