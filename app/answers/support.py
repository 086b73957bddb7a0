"""Checks by vectors, words and numbers whether the cited passages support a sentence.

The check detects invented statements; it does not prove true ones. Measured in docs/evaluation/answers.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from app.answers.extract import asked_words
from app.search.bm25 import query_vector
from embedder.text.sentences import sentence_spans

LEAST_COSINE = 0.6  # with the nearest sentence of the passages
# If the passages have this share of the sentence's words, a lower cosine is enough: a sentence that combines two
# sentences of the passages is near to neither.
LEAST_WORDS = 0.8
LEAST_COSINE_WITH_WORDS = 0.4
MAX_SENTENCES = 128

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

Vectors = Callable[[Sequence[str]], np.ndarray]  # of texts, (n, D)


def is_supported(sentence: str, texts: Sequence[str], *, vectors: Vectors) -> bool:
    """Whether the cited passages contain all numbers of the sentence, and a sentence near enough to it.

    texts: of the cited passages; without any, the sentence is unsupported.
    """
    if not texts or not numbers_of(sentence) <= numbers_of(" ".join(texts)):
        return False
    sources = [text[start:end] for text in texts for start, end in sentence_spans(text)][:MAX_SENTENCES]
    embedded = vectors([sentence, *sources])
    nearest = float(np.max(embedded[1:] @ embedded[0]))
    least = LEAST_COSINE_WITH_WORDS if _words_held(sentence, texts) >= LEAST_WORDS else LEAST_COSINE
    return nearest >= least


def numbers_of(text: str) -> set[str]:
    """The numbers in a text, as digits only: 1,400 and 1.400 and 1400 are equal."""
    return {re.sub(r"[.,]", "", number) for number in _NUMBER.findall(text)}


def _words_held(sentence: str, texts: Sequence[str]) -> float:
    words = set(asked_words(sentence))
    held = words & set(query_vector(" ".join(texts)).indices)
    return len(held) / len(words) if words else 0.0
