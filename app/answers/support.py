"""Whether passages say what a sentence says that cites them, as far as vectors, words and numbers tell.

It finds what is made up; it does not prove what is said. Measured in docs/evaluation/answers.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from app.answers.extract import asked_words
from app.search.bm25 import query_vector
from embedder.text.sentences import sentence_spans

LEAST_COSINE = 0.6  # with a sentence of the passages
LEAST_WORDS = 0.8  # of its words in the passages: what joins two sentences is near to neither
LEAST_COSINE_WITH_WORDS = 0.4
MAX_SENTENCES = 128

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

Vectors = Callable[[Sequence[str]], np.ndarray]  # of texts, (n, D)


def is_supported(sentence: str, texts: Sequence[str], *, vectors: Vectors) -> bool:
    """`texts` of the passages that it cites."""
    if not texts or not numbers_of(sentence) <= numbers_of(" ".join(texts)):
        return False
    said = [text[start:end] for text in texts for start, end in sentence_spans(text)][:MAX_SENTENCES]
    found = vectors([sentence, *said])
    nearest = float(np.max(found[1:] @ found[0]))
    least = LEAST_COSINE_WITH_WORDS if _words_held(sentence, texts) >= LEAST_WORDS else LEAST_COSINE
    return nearest >= least


def numbers_of(text: str) -> set[str]:
    """As digits alone, so that 1,400 and 1.400 and 1400 are one."""
    return {re.sub(r"[.,]", "", each) for each in _NUMBER.findall(text)}


def _words_held(sentence: str, texts: Sequence[str]) -> float:
    words = set(asked_words(sentence))
    held = words & set(query_vector(" ".join(texts)).indices)
    return len(held) / len(words) if words else 0.0
