"""Searches several physical indexes as one, under a joined name, and merges the best points of each leg.

Cosines are comparable across indexes. BM25 scores are less so: each index has its own IDF.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from app.ports.parts import SearchedIndex, TextVectors
from app.types.documents import Owned, Point, ScoredPoint
from app.types.lens_indexes import Label

_JOINED_BY = "+"  # never part of an index name
INDEX_KEY = "index"  # added to the payload of a point from several indexes: the name of its index

T = TypeVar("T")


def joined_name(indexes: Sequence[str]) -> str:
    return _JOINED_BY.join(indexes)


class JoinedIndexes:
    """Searches several indexes under one joined name. Implements `SearchedIndex`. Calls with the name of a single index
    are passed on unchanged."""

    def __init__(self, index: SearchedIndex) -> None:
        self._index = index

    def search(self, index: str, vector: Sequence[float], *, limit: int, **options: Any) -> list[ScoredPoint]:
        return self._best(index, lambda name: self._index.search(name, vector, limit=limit, **options), limit)

    def search_beside(
        self, index: str, vector: Sequence[float], *, limit: int, labelled: tuple[Label, int], **options: Any
    ) -> tuple[list[ScoredPoint], list[ScoredPoint]]:
        return self._index.search_beside(index, vector, limit=limit, labelled=labelled, **options)

    def search_sparse(self, index: str, text: str, *, limit: int, **options: Any) -> list[ScoredPoint]:
        def ask(name: str) -> list[ScoredPoint]:
            return self._index.search_sparse(name, text, limit=limit, **options)

        with_words = [name for name in index.split(_JOINED_BY) if self._index.has_sparse(name)]
        return self._best(joined_name(with_words) or index, ask, limit)

    def search_legs(
        self, index: str, vectors: Sequence[Sequence[float]], text: str, *, limit: int, **options: Any
    ) -> tuple[list[list[ScoredPoint]], list[ScoredPoint]]:
        names = index.split(_JOINED_BY)
        if len(names) == 1:
            return self._index.search_legs(index, vectors, text, limit=limit, **options)
        found = [
            self._index.search_legs(name, vectors, text if self._index.has_sparse(name) else "", limit=limit, **options)
            for name in names
        ]
        dense = [
            [_of(name, legs[leg]) for name, (legs, _) in zip(names, found, strict=True)] for leg in range(len(vectors))
        ]
        words = [_of(name, sparse) for name, (_, sparse) in zip(names, found, strict=True)]
        return [_merged(leg, limit) for leg in dense], _merged(words, limit)

    def has_sparse(self, index: str) -> bool:
        return any(map(self._index.has_sparse, index.split(_JOINED_BY)))

    def retrieve(self, index: str, ids: Sequence[str]) -> list[Point]:
        return list(chain.from_iterable(self._each(index, lambda name: self._index.retrieve(name, ids))))

    def payloads(self, index: str, ids: Sequence[str]) -> dict[str, dict[str, object]]:
        names = index.split(_JOINED_BY)
        if len(names) == 1:
            return self._index.payloads(index, ids)
        found: dict[str, dict[str, object]] = {}
        for name in names:
            payloads = self._index.payloads(name, ids)
            found |= {point_id: {**payload, INDEX_KEY: name} for point_id, payload in payloads.items()}
        return found

    def vectors(self, index: str, ids: Sequence[str]) -> tuple[list[str], np.ndarray]:
        found = self._each(index, lambda name: self._index.vectors(name, ids))
        there = [vectors for known, vectors in found if known] or [found[0][1]]
        return [each for known, _ in found for each in known], np.concatenate(there)

    def owned_vectors(self, index: str, ids: Sequence[str]) -> Owned[TextVectors]:
        found = self._each(index, lambda name: self._index.owned_vectors(name, ids))
        there = [each.found.vectors for each in found if each.ids] or [found[0].found.vectors]
        texts = [text for each in found for text in each.found.texts]
        return Owned(*_chained(found), TextVectors(texts, np.concatenate(there)))

    def owned_labels(self, index: str, field: str, ids: Sequence[str]) -> Owned[Sequence[Mapping[str, object] | None]]:
        found = self._each(index, lambda name: self._index.owned_labels(name, field, ids))
        return Owned(*_chained(found), [each for own in found for each in own.found])

    def all_labels(self, index: str, field: str) -> Iterator[Mapping[str, Mapping[str, object]]]:
        return self._index.all_labels(index, field)  # a lens index belongs to one collection

    def label_counts(self, index: str, field: str, *, filters: Mapping[str, str] | None = None) -> dict[int, int]:
        return self._index.label_counts(index, field, filters=filters)

    def count(self, index: str) -> int:
        return sum(self._each(index, self._index.count))

    def _each(self, index: str, ask: Callable[[str], T]) -> list[T]:
        return [ask(name) for name in index.split(_JOINED_BY)]

    def _best(self, index: str, ask: Callable[[str], list[ScoredPoint]], limit: int) -> list[ScoredPoint]:
        names = index.split(_JOINED_BY)
        return ask(index) if len(names) == 1 else _merged([_of(name, ask(name)) for name in names], limit)


def _of(index: str, points: Iterable[ScoredPoint]) -> Iterator[ScoredPoint]:
    """Adds the index's name to the payloads."""
    return (replace(point, payload={**point.payload, INDEX_KEY: index}) for point in points)


def _chained(found: Sequence[Owned[Any]]) -> tuple[list[str], list[str]]:
    """Concatenates point ids and document ids."""
    return [each for own in found for each in own.ids], [each for own in found for each in own.document_ids]


def _merged(found: Iterable[Iterable[ScoredPoint]], limit: int) -> list[ScoredPoint]:
    return sorted(chain.from_iterable(found), key=lambda point: (-point.score, point.id))[:limit]
