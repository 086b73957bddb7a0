"""Classifies passages and queries by the values of a lens, from stored vectors. Embeds only phrases not yet cached."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.ports.parts import Embedder
from app.search.aspects import background_phrases
from app.search.value_distributions import Clarity, fits, margins, measure_clarity
from app.search.value_labels import ValueLabels
from app.types.documents import Collection
from app.types.values import LensValue, flatten_phrases
from embedder.lru import LRUCache
from embedder.text.mentions import mentions
from embedder.text.relevance import TEMPERATURE, distributions, value_cosines

KEPT_PHRASES = 4096
_BACKGROUND_PHRASES = 256
_KEPT_LENSES = 16  # matrices of phrases and background, at most 2 MB per lens

Space = tuple[str, str, int]  # model fingerprint, document instruction, document steps: they decide a stored vector


class ValueReader:
    """Classifies texts by values and compares them with phrases, by vectors of one collection's space.

    Caches the vectors of `KEPT_PHRASES` phrases. Thread-safe.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: LRUCache[tuple[Space, str], np.ndarray] = LRUCache(KEPT_PHRASES)
        self._lenses: LRUCache[tuple[Space, tuple[str, ...]], tuple[np.ndarray, np.ndarray]] = LRUCache(_KEPT_LENSES)

    def label(
        self,
        vectors: np.ndarray,
        texts: Sequence[str],
        values: Sequence[LensValue],
        *,
        collection: Collection,
        temperature: float = TEMPERATURE,
    ) -> ValueLabels:
        """Classifies texts by the values. vectors: (n, D), L2-normalised, as stored in the collection's index."""
        phrases, owners = flatten_phrases(values)
        phrase_vectors, background = self._phrases(phrases, collection)
        text_vectors = vectors.astype(np.float32, copy=False)
        cosines = value_cosines(text_vectors, phrase_vectors, owners, mentions(texts, phrases))
        numbers = np.where(fits(cosines, text_vectors, background), cosines.argmax(axis=1), len(values))
        return ValueLabels(numbers, distributions(cosines, temperature))

    def nearness(
        self, vectors: np.ndarray, phrases: Sequence[str], *, collection: Collection
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the cosines of texts and phrases, and the cosines' margins: standard deviations above the text's mean
        cosine with background phrases. Both (n, P). vectors: (n, D), as stored in the collection's index."""
        phrase_vectors, background = self._phrases(phrases, collection)
        cosines = vectors @ phrase_vectors.T
        return cosines, np.stack([margins(column[:, None], vectors, background) for column in cosines.T], axis=1)

    def clarity(self, vectors: np.ndarray, values: Sequence[LensValue], *, collection: Collection) -> Clarity:
        """Measures how clearly texts fall into the values. vectors: (n, D), as stored in the collection's index."""
        phrases, owners = flatten_phrases(values)
        phrase_vectors, background = self._phrases(phrases, collection)
        return measure_clarity(vectors, phrase_vectors, owners, background)

    def _phrases(self, phrases: Sequence[str], collection: Collection) -> tuple[np.ndarray, np.ndarray]:
        """Vectors of the phrases (P, D) and of background phrases of many subjects (B, D)."""
        key = (_space_of(collection), tuple(phrases))
        cached = self._lenses.get(key)
        if cached is None:
            embedded = self._embed([*phrases, *background_phrases(_BACKGROUND_PHRASES)], collection)
            cached = embedded[: len(phrases)], embedded[len(phrases) :]
            self._lenses.keep({key: cached})
        return cached

    def _embed(self, texts: Sequence[str], collection: Collection) -> np.ndarray:
        """Embeds like the collection's documents: (n, D), cached."""
        space = _space_of(collection)
        different = list(dict.fromkeys(texts))
        known = {text: vector for text in different if (vector := self._vectors.get((space, text))) is not None}
        new = [text for text in different if text not in known]
        if new:
            vectors = self._embedder.embed_documents(
                new, instruction=collection.document_instruction, steps=collection.document_steps
            )
            fresh = {text: np.asarray(vector, dtype=np.float32) for text, vector in zip(new, vectors, strict=True)}
            self._vectors.keep({(space, text): vector for text, vector in fresh.items()})
            known |= fresh
        return np.stack([known[text] for text in texts])


def _space_of(collection: Collection) -> Space:
    return collection.fingerprint, collection.document_instruction, collection.document_steps
