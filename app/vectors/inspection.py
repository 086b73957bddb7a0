"""Checks stored points for damage. All vectors are written with length 1; another length reveals a damaged vector."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from qdrant_client import QdrantClient, models

from app.search.bm25 import SparseVector, document_vector
from app.search.retrieval import is_by_gircse
from app.types.chunk_text import embedded_text_of, has_its_hash
from app.types.documents import PointDamage, ScoredPoint
from app.vectors.labels import LabelledPoints
from app.vectors.points import WORDS, raw_id

_MOST_OFF = 1e-3  # tolerance of a float32 vector's length, and of a word's weight
_NEAR = 0.99  # least score of the best hit of a search with a stored vector: the point itself, or an equal one
_SEARCHED = 4  # points per call that are searched for


class _Texts(NamedTuple):
    """Damage of texts and of sparse vectors, and a sound text to search with ("" if there is none)."""

    texts: PointDamage
    words: PointDamage
    text: str


class InspectedPoints(LabelledPoints):
    """Finds damaged points. Implements a part of `VectorIndex`."""

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
            f"{len(wrong)} of {len(found)} checked vectors differ from what was written", tuple(wrong)
        )
        checked = self._check_texts(index, ids)
        if damage := _joined([wrong_vectors, checked.texts, checked.words]):
            return damage
        reason = self._search_fault(index, vectors, checked.text)
        return PointDamage(reason) if reason else None

    def _search_fault(self, index: str, vectors: np.ndarray, text: str) -> str | None:
        """Searches with stored vectors and a stored text; returns why the results are wrong, or None."""
        nearest, by_words = self.search_legs(index, [vector.tolist() for vector in vectors[:_SEARCHED]], text, limit=1)
        missed = sum(not hits or hits[0].score < _NEAR for hits in nearest)
        if 2 * missed > len(nearest):
            return f"searches with the vectors of {missed} of its points do not find them"
        return "a search with the words of one of its chunks finds nothing" if text and not by_words else None

    def _check_texts(self, index: str, ids: Sequence[str]) -> _Texts:
        names = [WORDS] if self.has_sparse(index) else []
        fetch = partial(QdrantClient.retrieve, collection_name=index, with_payload=True, with_vectors=names or False)
        records = self._call(index, partial(fetch, ids=[raw_id(point_id) for point_id in ids]))
        wrong_texts = [str(record.id) for record in records if not _is_as_written(record.payload or {})]
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
        if 2 * len(weights) > len(records):  # no damage: an older release weighed words in another way
            weights = []
        return _Texts(
            PointDamage("texts of its chunks differ from what was written", tuple(wrong_texts)),
            PointDamage("words of its chunks differ from what was written", (*counts, *weights)),
            text,
        )


def _joined(damages: Sequence[PointDamage]) -> PointDamage | None:
    found = [damage for damage in damages if damage.ids]
    if not found:
        return None
    return PointDamage(
        "; ".join(damage.reason for damage in found), tuple({id: 0 for damage in found for id in damage.ids})
    )


def _is_as_written(payload: Mapping[str, object]) -> bool:
    """Whether the text matches its hash. Points of other programs, such as LangChain, have no hash: they are sound."""
    if "page_content" not in payload or not isinstance(payload.get("metadata"), Mapping):
        return False
    return not is_by_gircse(payload) or has_its_hash(payload)


def _words_of(record: models.Record) -> dict[int, float]:
    kept = record.vector.get(WORDS) if isinstance(record.vector, Mapping) else None
    return dict(zip(kept.indices, kept.values, strict=True)) if isinstance(kept, models.SparseVector) else {}


def _are_alike(kept: Mapping[int, float], words: SparseVector) -> bool:
    return all(
        abs(kept.get(index, 0.0) - value) <= _MOST_OFF * max(1.0, value)
        for index, value in zip(words.indices, words.values, strict=True)
    )
