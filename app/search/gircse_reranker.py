"""Re-ranks with the model that searches: passages are embedded once more, now under the query's own instruction.

An index holds one vector of a chunk for all instructions. Those of second looks are kept, so that the next query under
the same instruction costs only those of new passages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from app.ports.observer import SILENT, Observer
from app.ports.parts import Embedder
from app.ports.rerank import Passage
from app.types.search import MAX_RERANK
from embedder.lru import LRUCache

STEPS = 1
# Of a passage of a collection its beginning is looked at, for time: docs/evaluation/rerank.md. A text of the caller's
# own, which has no id, is read whole.
MOST_CHARACTERS = 350
KEPT_VECTORS = 20_000
# A call this small goes among the queries; between two of them other queries, and due documents, have their turn.
_PART_TEXTS, _PART_CHARACTERS = 32, 20_000


def beginning_of(text: str, characters: int = MOST_CHARACTERS) -> str:
    """So many, without the part of a word that they may end with."""
    if len(text) <= characters:
        return text
    return text[: characters + 1].rsplit(None, 1)[0][:characters]


Key = tuple[str, str, str, int, str]  # chunk id, text hash, instruction, steps, fingerprint


class GircseReranker:
    """Implements `Reranker`. Keeps up to `kept` vectors in memory, those that were asked for last."""

    def __init__(
        self, embedder: Embedder, *, steps: int = STEPS, kept: int = KEPT_VECTORS, observer: Observer = SILENT
    ) -> None:
        self._embedder = embedder
        self._steps = steps
        self._observer = observer
        self._vectors: LRUCache[Key, np.ndarray] = LRUCache(kept)

    def scores(self, query: str, passages: Sequence[Passage], *, instruction: str) -> list[float]:
        """Cosines; of a model whose documents have a vector for every step, of the most alike."""
        if not passages:
            return []
        steps = min(max(self._steps, self._embedder.info.min_steps), self._embedder.info.max_steps)
        asked = self._embedder.embed_query(query, instruction=instruction, steps=steps).vector
        vectors = self._embed(passages, instruction, steps)
        cosines = vectors @ np.asarray(asked, dtype=np.float32)
        return (cosines if cosines.ndim == 1 else cosines.max(axis=1)).astype(float).tolist()

    def close(self) -> None:
        """Nothing is held open."""

    def _embed(self, passages: Sequence[Passage], instruction: str, steps: int) -> np.ndarray:
        """(n, D), or (n, K, D)"""
        info = self._embedder.info
        fingerprint, has_several = info.fingerprint, info.vectors_per_document(steps) > 1
        embed: Callable[..., Sequence[object]] = (
            self._embedder.embed_steps if has_several else self._embedder.embed_documents
        )
        keys = [(each.id, each.text_hash, instruction, steps, fingerprint) for each in passages]
        known: dict[Key, np.ndarray] = {}
        new: dict[Key, str] = {}
        for key, passage in zip(keys, passages, strict=True):
            vector = self._vectors.get(key)
            self._observer.looked_up("reranked", is_hit=vector is not None)
            if vector is None:
                new[key] = beginning_of(passage.text) if passage.id else passage.text
            else:
                known[key] = vector
        parts = _parts(new) if len(new) <= MAX_RERANK else iter([list(new)])
        for part in parts:
            found = embed([new[key] for key in part], instruction=instruction, steps=steps)
            fresh = {key: np.array(vector, dtype=np.float32) for key, vector in zip(part, found, strict=True)}
            self._vectors.keep(fresh)
            known |= fresh
        return np.stack([known[key] for key in keys])


def _parts(texts: dict[Key, str]) -> Iterator[list[Key]]:
    """Of like lengths, each small enough to be interactive."""
    part: list[Key] = []
    characters = 0
    for key in sorted(texts, key=lambda each: len(texts[each])):
        size = len(texts[key])
        if part and (len(part) == _PART_TEXTS or characters + size > _PART_CHARACTERS):
            yield part
            part, characters = [], 0
        part.append(key)
        characters += size
    if part:
        yield part
