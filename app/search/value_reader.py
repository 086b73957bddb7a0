"""Reads passages and queries as values of a lens: from stored vectors, with one embedding per phrase that is new."""

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
_KEPT_LENSES = 16  # their vectors put together: at most 2 MB each

Space = tuple[str, str, int]  # fingerprint, document instruction and document steps: what a stored vector depends on


class ValueReader:
    """Safe to use from several threads. Remembers the vectors of `KEPT_PHRASES` phrases."""

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
        """What texts are among the values. vectors: (n, D), L2-normalised, as the collection's index holds them."""
        phrases, owners = flatten_phrases(values)
        own, background = self._phrases(phrases, collection)
        read = vectors.astype(np.float32, copy=False)
        cosines = value_cosines(read, own, owners, mentions(texts, phrases))
        numbers = np.where(fits(cosines, read, background), cosines.argmax(axis=1), len(values))
        return ValueLabels(numbers, distributions(cosines, temperature))

    def nearness(
        self, vectors: np.ndarray, phrases: Sequence[str], *, collection: Collection
    ) -> tuple[np.ndarray, np.ndarray]:
        """(n, P) each: cosines of texts and phrases, and by how many standard deviations these are above those of the
        text and phrases of other subjects. vectors: (n, D), as the collection's index holds them."""
        own, background = self._phrases(phrases, collection)
        cosines = vectors @ own.T
        return cosines, np.stack([margins(each[:, None], vectors, background) for each in cosines.T], axis=1)

    def clarity(self, vectors: np.ndarray, values: Sequence[LensValue], *, collection: Collection) -> Clarity:
        """How clearly texts fall into the values. vectors: (n, D), as the collection's index holds them."""
        phrases, owners = flatten_phrases(values)
        own, background = self._phrases(phrases, collection)
        return measure_clarity(vectors, own, owners, background)

    def _phrases(self, phrases: Sequence[str], collection: Collection) -> tuple[np.ndarray, np.ndarray]:
        """Vectors of phrases and of those of other subjects, (n, D) each."""
        key = (_space_of(collection), tuple(phrases))
        found = self._lenses.get(key)
        if found is None:
            embedded = self._embed([*phrases, *background_phrases(_BACKGROUND_PHRASES)], collection)
            found = embedded[: len(phrases)], embedded[len(phrases) :]
            self._lenses.keep({key: found})
        return found

    def _embed(self, texts: Sequence[str], collection: Collection) -> np.ndarray:
        """(n, D) in the space of the collection's chunks."""
        space = _space_of(collection)
        different = list(dict.fromkeys(texts))
        known = {text: vector for text in different if (vector := self._vectors.get((space, text))) is not None}
        new = [text for text in different if text not in known]
        if new:
            found = self._embedder.embed_documents(
                new, instruction=collection.document_instruction, steps=collection.document_steps
            )
            fresh = {text: np.asarray(vector, dtype=np.float32) for text, vector in zip(new, found, strict=True)}
            self._vectors.keep({(space, text): vector for text, vector in fresh.items()})
            known |= fresh
        return np.stack([known[text] for text in texts])


def _space_of(collection: Collection) -> Space:
    return collection.fingerprint, collection.document_instruction, collection.document_steps
