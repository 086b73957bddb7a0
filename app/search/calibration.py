"""Grades how well passages answer a query (weak, fair, strong), on one scale for all modes and collections.

The grade compares the cosine of query and passage with the best cosines that off-topic queries reach in the same index.
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

# In deviations above the median of the best cosines of off-topic queries: docs/evaluation/calibration.md
WEAK_BELOW, STRONG_FROM = 2.0, 6.0
# For a passage that shares half the query's words (and at least two), the median is enough: in small collections of one
# technical field, off-topic queries reach high cosines, too.
WEAK_BELOW_WITH_WORDS, _SHARED, _LEAST_WORDS = 0.0, 0.5, 2
_OFF_TOPIC_QUERIES = 64  # wordings of the bank of aspects: they ask for the kind of a text, not for its content
_LOW = 0.1587  # quantile one standard deviation below the median of a normal distribution
_LEAST_DEVIATION = 0.02  # floor, for an index with few passages or toy vectors
_KEPT, _AGE_S = 64, 300.0  # cached scales expire, since a collection may grow


@dataclass(frozen=True, slots=True)
class Scale:
    """Distribution of the best cosines that off-topic queries reach in an index."""

    median: float
    deviation: float  # median minus 16th percentile: above the median, a broad collection may truly answer the query

    @classmethod
    def of(cls, best: Sequence[float]) -> Scale:
        low, median = np.quantile(best, (_LOW, 0.5))
        return cls(float(median), float(median - low))

    def match(self, cosine: float, *, shares_words: bool = False) -> Match:
        """Grades a cosine. `shares_words`: the passage has half the words of the query."""
        distance = (cosine - self.median) / max(self.deviation, _LEAST_DEVIATION)
        weak_below = WEAK_BELOW_WITH_WORDS if shares_words else WEAK_BELOW
        return Match.WEAK if distance < weak_below else Match.FAIR if distance < STRONG_FROM else Match.STRONG


class Scales:
    """`Scale.match` for many searches at once, on arrays."""

    def __init__(self, scales: Sequence[Scale]) -> None:
        self._medians = np.array([scale.median for scale in scales])
        self._deviations = np.array([max(scale.deviation, _LEAST_DEVIATION) for scale in scales])

    def reached(self, cosines: np.ndarray, *, strong_only: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Grades cosines (n passages, S searches) into three boolean arrays (n, S): strong; fair; fair only if passage
        and query share words. strong_only (S,): searches for which only strong passages count."""
        distances = (cosines - self._medians) / self._deviations
        is_strong = distances >= STRONG_FROM
        is_near = (distances >= WEAK_BELOW_WITH_WORDS) & ~is_strong & ~strong_only
        is_fair = is_near & (distances >= WEAK_BELOW)
        return is_strong, is_fair, is_near & ~is_fair


def measure_scale(index: SearchedIndex, name: str, off_topic: np.ndarray) -> Scale:
    """Searches the index `name` with the vectors of off-topic queries (n, D). Scale(0, 0) for an empty index."""
    legs, _ = index.search_legs(name, off_topic.tolist(), "", limit=1, with_payload=False)
    best = [points[0].score for points in legs if points]
    return Scale.of(best) if best else Scale(0.0, 0.0)


def off_topic_wordings(count: int = _OFF_TOPIC_QUERIES) -> list[str]:
    wordings = bank_wordings()
    return wordings[:: len(wordings) // count]


def shares_words(passage: str, query: str) -> bool:
    """Whether the query has two words or more, and the passage at least half of them."""
    return shares(frozenset(query_vector(passage).indices), frozenset(query_vector(query).indices))


def shares(passage_terms: frozenset[int], query_terms: frozenset[int]) -> bool:
    """`shares_words`, by BM25 term ids."""
    return len(query_terms) >= _LEAST_WORDS and len(query_terms & passage_terms) >= _SHARED * len(query_terms)


def best_match(matches: Iterable[Match | None]) -> Match | None:
    present = set(matches)
    return next((match for match in (Match.STRONG, Match.FAIR, Match.WEAK) if match in present), None)


class MatchCalibration:
    """Grades passages of a collection. Caches the scales of the `_KEPT` indexes used last, each for `_AGE_S` seconds.
    Thread-safe."""

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
        """Grades `passages` (texts by point id); leaves out points that were deleted since.

        vector: (D,), the query embedded like the collection's documents (same instruction and steps).
        """
        if not passages:
            return {}
        ids, cosines = self._cosines(np.asarray(vector, dtype=np.float64), list(passages), collection)
        scale = self._scale(collection)
        return {
            point_id: scale.match(float(cosine), shares_words=shares_words(passages[point_id], query))
            for point_id, cosine in zip(ids, cosines, strict=True)
        }

    def _cosines(self, query: np.ndarray, ids: Sequence[str], collection: Collection) -> tuple[list[str], np.ndarray]:
        """Ids of the points that still exist, and their cosines (n,) with `query` (D,)."""
        if collection.vectors_per_chunk == 1:  # fetches vectors without payloads
            present, vectors = self._index.vectors(collection.active_index, ids)
            return present, vectors @ query if present else vectors
        points = self._index.retrieve(collection.active_index, ids)
        return [point.id for point in points], best_cosines(points, query[:, None])[:, 0] if points else np.empty(0)

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
        """Embeds the off-topic queries like the collection's documents: (n, D). Cached by model, instruction, steps."""
        space = collection.fingerprint, collection.document_instruction, collection.document_steps
        known = self._off_topic.get(space)
        if known is None:
            wordings = bank_wordings()
            step = len(wordings) // _OFF_TOPIC_QUERIES
            known = kept_vectors(self._embedder.info, wordings) if collection.has_plain_vectors else None
            known = self._embed(wordings[::step], collection) if known is None else known[::step]
            self._off_topic.keep({space: known})
        return known

    def _embed(self, texts: list[str], collection: Collection) -> np.ndarray:
        vectors = self._embedder.embed_documents(
            texts, instruction=collection.document_instruction, steps=collection.document_steps
        )
        return np.asarray(vectors, dtype=np.float32)
