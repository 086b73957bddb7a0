"""Asks standing searches of new chunks: one matrix product for a batch of them. Knows neither catalog nor index.

A chunk is found exactly when the search would show it with this `match` or a better one, and, of a lens with values,
with the value that was chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from app.search.bm25 import document_vector, query_vector
from app.search.calibration import Scale, shares_words
from app.search.exclusions import LEAST_MARGIN, excluded_values
from app.search.filters import has_metadata
from app.search.value_reader import ValueReader
from app.types.chunk_text import embedded_text_of
from app.types.documents import Collection, Point
from app.types.search import Match, SearchMode, SearchRequest
from app.types.standing import StandingMatch, Strength
from app.types.values import value_names

_ROUNDING = 1e-4  # of float32, which only chooses what is looked at again
_HALF = 0.5


@dataclass(frozen=True)
class AskedSearch:
    """One that stands, ready to be asked. In mode sparse `vector` is empty: words alone decide."""

    id: str
    owner: str
    request: SearchRequest  # without what its query negates
    strength: Strength
    vector: np.ndarray  # (D,)
    scale: Scale

    @property
    def is_sparse(self) -> bool:
        return self.request.mode is SearchMode.SPARSE

    @cached_property
    def words(self) -> frozenset[int]:
        return frozenset(query_vector(self.request.query).indices)


class StandingSet:
    """The searches that stand over one collection, as of `version`."""

    def __init__(self, version: int, searches: Sequence[AskedSearch], collection: Collection, reader: ValueReader):
        self.version = version
        self.searches = searches
        self._collection = collection
        self._reader = reader
        self._by_vector = [each for each in searches if not each.is_sparse]
        self._sparse = [each for each in searches if each.is_sparse]
        self._matrix = (
            np.stack([each.vector for each in self._by_vector]).astype(np.float32) if self._by_vector else None
        )
        least = [each.scale.least(Match(each.strength.value)) for each in self._by_vector]
        self._least = np.array(least, dtype=np.float32) - _ROUNDING

    def find(self, points: Sequence[Point]) -> list[StandingMatch]:
        """What each of the searches finds among these chunks."""
        if not points:
            return []
        found = [*self._by_cosine(points), *self._by_words(points)]
        found = [each for each in found if has_metadata(_metadata(each[1]), each[0].request.filters)]
        found = self._without_others(found)
        return [
            StandingMatch(search.id, point.id, str(_metadata(point)["document_id"]), score, match)
            for search, point, score, match in found
        ]

    def _by_cosine(self, points: Sequence[Point]) -> list[Found]:
        if self._matrix is None:
            return []
        vectors = np.asarray([point.vector for point in points], dtype=np.float32)
        rows, columns = np.nonzero(vectors @ self._matrix.T >= self._least)  # (n, S)
        found = []
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            search, point = self._by_vector[column], points[row]
            cosine = float(
                np.dot(np.asarray(search.vector, dtype=np.float64), np.asarray(point.vector, dtype=np.float64))
            )
            shared = shares_words(str(point.payload.get("page_content", "")), search.request.query)
            match = search.scale.match(cosine, shares_words=shared)
            if search.strength.is_reached_by(match):
                found.append((search, point, cosine, match))
        return found

    def _by_words(self, points: Sequence[Point]) -> list[Found]:
        if not self._sparse:
            return []
        found = []
        for point in points:
            held = frozenset(document_vector(embedded_text_of(point.payload)).indices)
            for search in self._sparse:
                share = len(search.words & held) / len(search.words) if search.words else 0.0
                match = Match.STRONG if share == 1.0 else Match.FAIR if share >= _HALF else Match.WEAK
                if search.strength.is_reached_by(match):
                    found.append((search, point, share, match))
        return found

    def _without_others(self, found: list[Found]) -> list[Found]:
        """Without passages of other values than the chosen one, and those about what the search is not to be about."""
        asking: dict[str, list[Found]] = {}
        for each in found:
            asking.setdefault(each[0].id, []).append(each)
        kept = []
        for of_search in asking.values():
            search = of_search[0][0]
            vectors = np.asarray([point.vector for _, point, _, _ in of_search], dtype=np.float32)
            points = [each[1] for each in of_search]
            keep = self._has_value(search, points, vectors) & ~self._is_excluded(search, points, vectors)
            kept += [each for each, is_kept in zip(of_search, keep.tolist(), strict=True) if is_kept]
        return kept

    def _has_value(self, search: AskedSearch, points: Sequence[Point], vectors: np.ndarray) -> np.ndarray:
        request = search.request
        excluded = set(excluded_values(request).values())
        if not request.values or (request.value is None and not excluded):
            return np.ones(len(vectors), dtype=bool)
        names = value_names(request.values)
        texts = [str(each.payload.get("page_content", "")) for each in points]
        labels = self._reader.label(vectors, texts, request.values, collection=self._collection)
        own = [names[number] for number in labels.numbers.tolist()]
        return np.array([name not in excluded and request.value in (None, name) for name in own])

    def _is_excluded(self, search: AskedSearch, points: Sequence[Point], vectors: np.ndarray) -> np.ndarray:
        """Those with all words of an excluded phrase, and those that are nearer to it than to the query."""
        values = excluded_values(search.request)
        phrases = [each for each in search.request.exclude if each not in values]
        if not phrases:
            return np.zeros(len(points), dtype=bool)
        wanted = [frozenset(query_vector(phrase).indices) for phrase in phrases]
        held = [frozenset(document_vector(embedded_text_of(point.payload)).indices) for point in points]
        is_named = np.array([any(words and words <= own for words in wanted) for own in held])
        if search.is_sparse:
            return is_named
        cosines, margins = self._reader.nearness(vectors, phrases, collection=self._collection)
        own_cosines = vectors @ search.vector.astype(np.float32)
        is_about = ((margins >= LEAST_MARGIN) & (cosines > own_cosines[:, None])).any(axis=1)
        return np.asarray(is_named | is_about)


Found = tuple[AskedSearch, Point, float, Match]


def _metadata(point: Point) -> Mapping[str, object]:
    found = point.payload.get("metadata")
    return found if isinstance(found, Mapping) else {}
