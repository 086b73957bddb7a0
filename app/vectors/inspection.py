"""Looks whether points are what was written: a zeroed or altered vector is told by its length, which is 1 for all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from qdrant_client import QdrantClient, models

from app.search.bm25 import SparseVector, document_vector
from app.search.retrieval import is_own
from app.types.chunk_text import embedded_text_of, has_its_hash
from app.types.documents import PointDamage, ScoredPoint
from app.vectors.labels import LabelledPoints
from app.vectors.points import WORDS, raw_id

_MOST_OFF = 1e-3  # of the length of a vector in float32
_NEAR = 0.99  # what a vector finds is itself, or one like it
_SEARCHED = 4  # of the points of a call


class _Texts(NamedTuple):
    """What is wrong with texts and words of points, and a text to search with."""

    texts: PointDamage
    words: PointDamage
    text: str


class InspectedPoints(LabelledPoints):
    """The part of the port `VectorIndex` that looks for damage."""

    @abstractmethod
    def has_sparse(self, index: str) -> bool: ...

    @abstractmethod
    def search_legs(
        self, index: str, vectors: Sequence[Sequence[float]], text: str, *, limit: int
    ) -> tuple[list[list[ScoredPoint]], list[ScoredPoint]]: ...

    def inspect(self, index: str, ids: Sequence[str]) -> PointDamage | None:
        found, vectors = self.vectors(index, ids)
        if not found:
            return None
        lengths = np.linalg.norm(np.nan_to_num(vectors, nan=0.0, posinf=0.0, neginf=0.0), axis=1)
        wrong = [found[row] for row in np.flatnonzero(np.abs(lengths - 1) > _MOST_OFF)]
        wrong_vectors = PointDamage(
            f"{len(wrong)} of {len(found)} vectors that were looked at are not what was written", tuple(wrong)
        )
        looked = self._look_at_texts(index, ids)
        if all_wrong := _joined([wrong_vectors, looked.texts, looked.words]):
            return all_wrong
        reason = self._miss(index, vectors, looked.text)
        return PointDamage(reason) if reason else None

    def _miss(self, index: str, vectors: np.ndarray, text: str) -> str | None:
        nearest, by_words = self.search_legs(index, [each.tolist() for each in vectors[:_SEARCHED]], text, limit=1)
        missed = sum(not hits or hits[0].score < _NEAR for hits in nearest)
        if 2 * missed > len(nearest):
            return f"searches with the vectors of {missed} of its points do not find them"
        return "a search with the words of one of its chunks finds nothing" if text and not by_words else None

    def _look_at_texts(self, index: str, ids: Sequence[str]) -> _Texts:
        names = [WORDS] if self.has_sparse(index) else []
        fetch = partial(QdrantClient.retrieve, collection_name=index, with_payload=True, with_vectors=names or False)
        records = self._call(index, partial(fetch, ids=[raw_id(each) for each in ids]))
        wrong_texts = [str(each.id) for each in records if not _is_as_written(each.payload or {})]
        counts, weights, text = [], [], ""
        for record in records if names else ():
            words = document_vector(embedded_text_of(record.payload or {}))
            if str(record.id) in wrong_texts or not words:
                continue
            text = text or str((record.payload or {})["page_content"])
            kept = _words_of(record)
            if len(kept) != len(words.indices):
                counts.append(str(record.id))
            elif not _are_alike(kept, words):
                weights.append(str(record.id))
        if 2 * len(weights) > len(records):  # made by a release that weighed words in another way
            weights = []
        return _Texts(
            PointDamage("texts of its chunks are not what was written", tuple(wrong_texts)),
            PointDamage("words of its chunks are not what was written", (*counts, *weights)),
            text,
        )


def _joined(found: Sequence[PointDamage]) -> PointDamage | None:
    damaged = [each for each in found if each.ids]
    if not damaged:
        return None
    return PointDamage(
        "; ".join(each.reason for each in damaged), tuple({id: 0 for each in damaged for id in each.ids})
    )


def _is_as_written(payload: Mapping[str, object]) -> bool:
    """A point of another program, as LangChain's, has a text without a hash."""
    if "page_content" not in payload or not isinstance(payload.get("metadata"), Mapping):
        return False
    return not is_own(payload) or has_its_hash(payload)


def _words_of(record: models.Record) -> dict[int, float]:
    kept = record.vector.get(WORDS) if isinstance(record.vector, Mapping) else None
    return dict(zip(kept.indices, kept.values, strict=True)) if isinstance(kept, models.SparseVector) else {}


def _are_alike(kept: Mapping[int, float], words: SparseVector) -> bool:
    return all(
        abs(kept.get(index, 0.0) - value) <= _MOST_OFF * max(1.0, value)
        for index, value in zip(words.indices, words.values, strict=True)
    )
