"""Percolation: matches new chunks against saved alerts, by one matrix product per batch.

Knows neither catalog nor index.
A chunk matches exactly if a normal search would show it with the alert's `match` grade or a better one and, for a lens
with values, with the chosen value.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from app.search.bm25 import document_vector, query_vector
from app.search.calibration import Scale, Scales, shares
from app.search.exclusions import LEAST_MARGIN, excluded_values
from app.search.filters import has_metadata
from app.search.instructed_matches import InstructedMatches
from app.search.max_sim import best_cosines
from app.search.value_reader import ValueReader
from app.types.chunk_text import embedded_text_of
from app.types.documents import Collection, Point
from app.types.search import Match, SearchMode, SearchRequest
from app.types.standing import StandingMatch, Strength
from app.types.values import value_names

_HALF = 0.5


@dataclass(frozen=True)
class MatchableSearch:
    """A standing search (alert), prepared for matching. In mode sparse `vector` is empty: words alone decide."""

    id: str
    owner: str
    request: SearchRequest  # negated phrases already moved to `exclude`
    strength: Strength
    vector: np.ndarray  # (D,)
    scale: Scale

    @property
    def is_sparse(self) -> bool:
        return self.request.mode is SearchMode.SPARSE

    @property
    def words(self) -> frozenset[int]:
        return _words_of(self.request.query)


@lru_cache(maxsize=4_096)
def _words_of(query: str) -> frozenset[int]:
    """Cached across rebuilds: each new alert rebuilds all `MatchableSearch` of its collection."""
    return frozenset(query_vector(query).indices)


@dataclass(frozen=True)
class _Passage:
    """A new chunk. Its terms are computed once, for all searches."""

    point: Point

    @property
    def metadata(self) -> Mapping[str, object]:
        metadata = self.point.payload.get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}

    @cached_property
    def text(self) -> str:
        return str(self.point.payload.get("page_content", ""))

    @cached_property
    def words(self) -> frozenset[int]:
        return frozenset(query_vector(self.text).indices)

    @cached_property
    def terms(self) -> frozenset[int]:
        """Terms of the text with its context (headings), as in the index."""
        return frozenset(document_vector(embedded_text_of(self.point.payload)).indices)


class StandingSet:
    """The standing searches (alerts) of one collection, as of `version`."""

    def __init__(
        self,
        version: int,
        searches: Sequence[MatchableSearch],
        collection: Collection,
        reader: ValueReader,
        instructed: InstructedMatches,
    ):
        self.version = version
        self.searches = searches
        self._instructed = instructed
        self._collection = collection
        self._reader = reader
        self._by_vector = [search for search in searches if not search.is_sparse]
        self._sparse = [search for search in searches if search.is_sparse]
        # (D, S), in the precision of a normal search
        self._matrix = np.stack([search.vector for search in self._by_vector], axis=1) if self._by_vector else None
        self._scales = Scales([search.scale for search in self._by_vector])
        self._strong_only = np.array(
            [search.strength is Strength.STRONG and not self._is_graded_again(search) for search in self._by_vector],
            dtype=bool,
        )

    def find(self, points: Sequence[Point], *, visible: Container[str]) -> list[StandingMatch]:
        """Matches these chunks against the searches with the ids `visible`, whose owners may read the chunks."""
        if not points:
            return []
        passages = [_Passage(point) for point in points]
        by_cosine, by_words = (
            (pair for pair in pairs if pair[0].id in visible)
            for pairs in (self._by_cosine(passages), self._by_words(passages))
        )
        found = self._without_others([*self._graded_again(by_cosine), *by_words])
        return [
            StandingMatch(search.id, passage.point.id, str(passage.metadata["document_id"]), score, match)
            for search, passage, score, match in found
        ]

    def _by_cosine(self, passages: Sequence[_Passage]) -> Iterator[Found]:
        if self._matrix is None:
            return
        cosines = best_cosines([passage.point for passage in passages], self._matrix)  # (n, S)
        strong, fair, fair_with_words = self._scales.reached(cosines, strong_only=self._strong_only)
        for is_reached, match, needs_words in (
            (strong, Match.STRONG, False),
            (fair, Match.FAIR, False),
            (fair_with_words, Match.FAIR, True),
        ):
            for row, column in zip(*(axis.tolist() for axis in np.nonzero(is_reached)), strict=True):
                search, passage = self._by_vector[column], passages[row]
                if not needs_words or self._is_graded_again(search) or shares(passage.words, search.words):
                    yield search, passage, float(cosines[row, column]), match

    def _is_graded_again(self, search: MatchableSearch) -> bool:
        return bool(search.request.instruction) and self._instructed.has_scale

    def _graded_again(self, found: Iterable[Found]) -> Iterator[Found]:
        """Grades the passages of searches with an instruction as a search does, by embedding them under it.

        That is slow, so it is done only for passages whose stored vectors are nearer than those of off-topic queries.
        """
        by_search: dict[str, list[Found]] = {}
        for pair in found:
            if self._is_graded_again(pair[0]):
                by_search.setdefault(pair[0].id, []).append(pair)
            else:
                yield pair
        for pairs in by_search.values():
            search = pairs[0][0]
            payloads = {passage.point.id: passage.point.payload for _, passage, *_ in pairs}
            matches = self._instructed.matches_of(
                search.request.query, payloads, instruction=search.request.instruction or ""
            )
            for _, passage, score, _ in pairs:
                match = matches.get(passage.point.id)
                if match is not None and search.strength.is_reached_by(match):
                    yield search, passage, score, match

    def _by_words(self, passages: Sequence[_Passage]) -> Iterator[Found]:
        for passage in passages if self._sparse else ():
            for search in self._sparse:
                share = len(search.words & passage.terms) / len(search.words) if search.words else 0.0
                match = Match.STRONG if share == 1.0 else Match.FAIR if share >= _HALF else Match.WEAK
                if search.strength.is_reached_by(match):
                    yield search, passage, share, match

    def _without_others(self, found: Iterable[Found]) -> list[Found]:
        """Drops passages that do not match the search's filters, have another value than the chosen one, or are
        excluded."""
        kept: list[Found] = []
        unchecked: dict[str, list[Found]] = {}  # by search, since values and exclusions are checked in a batch
        for pair in found:
            request = pair[0].request
            if not has_metadata(pair[1].metadata, request.filters):
                continue
            if request.values or request.exclude:
                unchecked.setdefault(pair[0].id, []).append(pair)
            else:
                kept.append(pair)
        for pairs in unchecked.values():
            search, passages = pairs[0][0], [pair[1] for pair in pairs]
            vectors = np.asarray([passage.point.vector for passage in passages], dtype=np.float32)
            keep = self._has_value(search, passages, vectors) & ~self._is_excluded(search, passages, vectors)
            kept += [pair for pair, is_kept in zip(pairs, keep.tolist(), strict=True) if is_kept]
        return kept

    def _has_value(self, search: MatchableSearch, passages: Sequence[_Passage], vectors: np.ndarray) -> np.ndarray:
        request = search.request
        excluded = set(excluded_values(request).values())
        if not request.values or (request.value is None and not excluded):
            return np.ones(len(vectors), dtype=bool)
        names = value_names(request.values)
        texts = [passage.text for passage in passages]
        labels = self._reader.label(vectors, texts, request.values, collection=self._collection)
        own = [names[number] for number in labels.numbers.tolist()]
        return np.array([name not in excluded and request.value in (None, name) for name in own])

    def _is_excluded(self, search: MatchableSearch, passages: Sequence[_Passage], vectors: np.ndarray) -> np.ndarray:
        """(n,) bool: passages with all words of an excluded phrase, or nearer to it than to the query."""
        values = excluded_values(search.request)
        phrases = [phrase for phrase in search.request.exclude if phrase not in values]
        if not phrases:
            return np.zeros(len(passages), dtype=bool)
        wanted = [frozenset(query_vector(phrase).indices) for phrase in phrases]
        is_named = np.array([any(words and words <= passage.terms for words in wanted) for passage in passages])
        if search.is_sparse:
            return is_named
        cosines, margins = self._reader.nearness(vectors, phrases, collection=self._collection)
        own_cosines = vectors @ search.vector.astype(np.float32)
        is_about = ((margins >= LEAST_MARGIN) & (cosines > own_cosines[:, None])).any(axis=1)
        return np.asarray(is_named | is_about)


Found = tuple[MatchableSearch, _Passage, float, Match]
