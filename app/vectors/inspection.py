"""Looks whether points are what was written: a zeroed or altered vector is told by its length, which is 1 for all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from qdrant_client import QdrantClient, models

from app.search.bm25 import document_vector
from app.types.chunk_text import embedded_text_of
from app.types.documents import ScoredPoint
from app.vectors.labels import LabelledPoints
from app.vectors.points import WORDS, raw_id

_MOST_OFF = 1e-3  # of the length of a vector in float32
_NEAR = 0.99  # what a vector finds is itself, or one like it
_SEARCHED = 4  # of the points of a call


class InspectedPoints(LabelledPoints):
    """The part of the port `VectorIndex` that looks for damage."""

    @abstractmethod
    def has_sparse(self, index: str) -> bool: ...

    @abstractmethod
    def search_legs(
        self, index: str, vectors: Sequence[Sequence[float]], text: str, *, limit: int
    ) -> tuple[list[list[ScoredPoint]], list[ScoredPoint]]: ...

    def inspect(self, index: str, ids: Sequence[str]) -> str | None:
        found, vectors = self.vectors(index, ids)
        if not found:
            return None
        lengths = np.linalg.norm(np.nan_to_num(vectors, nan=0.0, posinf=0.0, neginf=0.0), axis=1)
        if wrong := int(np.sum(np.abs(lengths - 1) > _MOST_OFF)):
            return f"{wrong} of {len(found)} vectors that were looked at are not what was written"
        texts = self._texts(index, ids)
        if isinstance(texts, str):
            return texts
        text = next(filter(None, texts), "")
        nearest, by_words = self.search_legs(index, [each.tolist() for each in vectors[:_SEARCHED]], text, limit=1)
        missed = sum(not hits or hits[0].score < _NEAR for hits in nearest)
        if 2 * missed > len(nearest):
            return f"searches with the vectors of {missed} of its points do not find them"
        return "a search with the words of one of its chunks finds nothing" if text and not by_words else None

    def _texts(self, index: str, ids: Sequence[str]) -> list[str] | str:
        """Of those that have words; or what is wrong with them."""
        names = [WORDS] if self.has_sparse(index) else []
        fetch = partial(QdrantClient.retrieve, collection_name=index, with_payload=True, with_vectors=names or False)
        records = self._call(index, partial(fetch, ids=[raw_id(each) for each in ids]))
        texts = []
        for record in records:
            payload = record.payload or {}
            if "page_content" not in payload or not isinstance(payload.get("metadata"), Mapping):
                return "texts of its chunks are not what was written"
            words = document_vector(embedded_text_of(payload)) if names else None
            if words is None or not words.indices:
                continue
            kept = record.vector.get(WORDS) if isinstance(record.vector, Mapping) else None
            if not isinstance(kept, models.SparseVector) or len(kept.indices) != len(words.indices):
                return "words of its chunks are not what was written"
            texts.append(str(payload["page_content"]))
        return texts
