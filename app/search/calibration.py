"""Says of passages how well they answer, on one scale for all modes and collections: how far the cosine of query and
passage stands above what off-topic queries find there at best.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.ports.parts import Embedder, SearchedIndex
from app.search.aspect_search import bank_wordings
from app.search.aspect_vectors import kept_vectors
from app.search.bm25 import query_vector
from app.search.max_sim import best_cosines
from app.types.documents import Collection
from app.types.search import Match
from embedder.lru import LRUCache

# Deviations above the median of the best cosines of off-topic queries: docs/evaluation/calibration.md
WEAK_BELOW, STRONG_FROM = 2.0, 6.0
# A passage with half the words of the query, two or more, need only stand above the median: small collections of one
# technical field answer the off-topic queries well, too.
WEAK_BELOW_WITH_WORDS, _SHARED, _LEAST_WORDS = 0.0, 0.5, 2
_OFF_TOPIC_QUERIES = 64  # wordings of the bank of aspects, which ask of a text what it is, and nothing that is in it
_LOW = 0.1587  # of a normal distribution one standard deviation below its median
_LEAST_DEVIATION = 0.02  # of an index with a handful of passages, or of a toy's vectors
_KEPT, _AGE_S = 64, 300.0  # a collection may be growing


@dataclass(frozen=True, slots=True)
class Scale:
    """Of the best cosines that off-topic queries reach in an index."""

    median: float
    deviation: float  # down to the 16th percentile: above the median are queries that a broad collection does answer

    @classmethod
    def of(cls, best: Sequence[float]) -> Scale:
        low, median = np.quantile(best, (_LOW, 0.5))
        return cls(float(median), float(median - low))

    def match(self, cosine: float, *, shares_words: bool = False) -> Match:
        """`shares_words`: whether the passage has half the words of the query."""
        distance = (cosine - self.median) / max(self.deviation, _LEAST_DEVIATION)
        weak_below = WEAK_BELOW_WITH_WORDS if shares_words else WEAK_BELOW
        return Match.WEAK if distance < weak_below else Match.FAIR if distance < STRONG_FROM else Match.STRONG


class Scales:
    """Those of many searches at once, as `Scale.match` has them."""

    def __init__(self, scales: Sequence[Scale]) -> None:
        self._medians = np.array([each.median for each in scales])
        self._deviations = np.array([max(each.deviation, _LEAST_DEVIATION) for each in scales])

    def reached(self, cosines: np.ndarray, *, strong_only: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(n, S) each, of cosines (n, S) and strong_only (S,): what is a strong answer, what a fair one that counts,
        and what is one if passage and query share words."""
        distances = (cosines - self._medians) / self._deviations
        is_strong = distances >= STRONG_FROM
        is_near = (distances >= WEAK_BELOW_WITH_WORDS) & ~is_strong & ~strong_only
        is_fair = is_near & (distances >= WEAK_BELOW)
        return is_strong, is_fair, is_near & ~is_fair


def measure_scale(index: SearchedIndex, name: str, off_topic: np.ndarray) -> Scale:
    """Of the index `name`, by the vectors of off-topic queries (n, D); of an empty one 0."""
    found, _ = index.search_legs(name, off_topic.tolist(), "", limit=1, with_payload=False)
    best = [points[0].score for points in found if points]
    return Scale.of(best) if best else Scale(0.0, 0.0)


def off_topic_wordings(count: int = _OFF_TOPIC_QUERIES) -> list[str]:
    every = bank_wordings()
    return every[:: len(every) // count]


def shares_words(passage: str, query: str) -> bool:
    """Whether the passage has half the words of the query, and two or more of them."""
    return shares(frozenset(query_vector(passage).indices), frozenset(query_vector(query).indices))


def shares(held: frozenset[int], asked: frozenset[int]) -> bool:
    """`shares_words` of the words themselves."""
    return len(asked) >= _LEAST_WORDS and len(asked & held) >= _SHARED * len(asked)


def best_match(found: Iterable[Match | None]) -> Match | None:
    present = set(found)
    return next((each for each in (Match.STRONG, Match.FAIR, Match.WEAK) if each in present), None)


class MatchCalibration:
    """Safe to use from several threads. Scales of the last indexes are kept for minutes."""

    def __init__(
        self, index: SearchedIndex, embedder: Embedder, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._index = index
        self._embedder = embedder
        self._clock = clock
        self._scales: LRUCache[str, tuple[Scale, float]] = LRUCache(_KEPT)
        self._off_topic: LRUCache[tuple[str, str, int], np.ndarray] = LRUCache(_KEPT)

    def matches(
        self,
        query: str,
        vector: Sequence[float],
        passages: Mapping[str, str],
        collection: Collection,
    ) -> dict[str, Match]:
        """By point id; a passage that was deleted meanwhile is left out.

        vector: of the query, embedded as the collection's documents are, (D,). passages: texts by point id.
        """
        if not passages:
            return {}
        found, cosines = self._cosines(np.asarray(vector, dtype=np.float64), list(passages), collection)
        scale = self._scale(collection)
        return {
            each: scale.match(float(cosine), shares_words=shares_words(passages[each], query))
            for each, cosine in zip(found, cosines, strict=True)
        }

    def _cosines(self, asked: np.ndarray, ids: Sequence[str], collection: Collection) -> tuple[list[str], np.ndarray]:
        """Of those of these points that are there, (n,)."""
        if collection.vectors_per_chunk == 1:  # whose vectors come without payloads
            found, vectors = self._index.vectors(collection.active_index, ids)
            return found, vectors @ asked if found else vectors
        points = self._index.retrieve(collection.active_index, ids)
        return [point.id for point in points], best_cosines(points, asked[:, None])[:, 0] if points else np.empty(0)

    def _scale(self, collection: Collection) -> Scale:
        name = collection.active_index
        kept = self._scales.get(name)
        if kept is not None and self._clock() - kept[1] < _AGE_S:
            return kept[0]
        scale = measure_scale(self._index, name, self.off_topic_vectors(collection))
        if scale != Scale(0.0, 0.0):
            self._scales.keep({name: (scale, self._clock())})
        return scale

    def off_topic_vectors(self, collection: Collection) -> np.ndarray:
        """(n, D), embedded as the collection's documents are."""
        space = collection.fingerprint, collection.document_instruction, collection.document_steps
        known = self._off_topic.get(space)
        if known is None:
            every = bank_wordings()
            step = len(every) // _OFF_TOPIC_QUERIES
            known = kept_vectors(self._embedder.info, every) if collection.has_plain_vectors else None
            known = self._embed(every[::step], collection) if known is None else known[::step]
            self._off_topic.keep({space: known})
        return known

    def _embed(self, texts: list[str], collection: Collection) -> np.ndarray:
        found = self._embedder.embed_documents(
            texts, instruction=collection.document_instruction, steps=collection.document_steps
        )
        return np.asarray(found, dtype=np.float32)
