"""Re-ranks with the search model itself: embeds the candidate passages again, under the query's instruction.

The index has only one vector per chunk, for all instructions. Re-ranking vectors are cached, so the next query with the
same instruction embeds new passages only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from app.ports.observer import SILENT, Observer
from app.ports.parts import Embedder
from app.ports.rerank import RerankPassage
from app.types.search import MAX_RERANK
from embedder.lru import LRUCache

STEPS = 1
# To save time, only the beginning of a collection's passage is embedded: docs/evaluation/rerank.md. Texts that the
# caller sends (without an id) are embedded whole.
MOST_CHARACTERS = 350
KEPT_VECTORS = 20_000
_KEPT_QUERIES = 64
# Calls this small are scheduled as queries; other queries and due documents run between two of them.
_PART_TEXTS, _PART_CHARACTERS = 32, 20_000


def beginning_of(text: str, characters: int = MOST_CHARACTERS) -> str:
    """Cuts `text` to at most `characters`, at a word boundary."""
    if len(text) <= characters:
        return text
    return text[: characters + 1].rsplit(None, 1)[0][:characters]


Key = tuple[str, str, str, int, str]  # chunk id, text hash, instruction, steps, fingerprint


class EmbedderReranker:
    """Re-ranks by cosines under the query's instruction. Implements `Reranker`. Caches up to `kept` vectors in memory
    (LRU)."""

    def __init__(
        self, embedder: Embedder, *, steps: int = STEPS, kept: int = KEPT_VECTORS, observer: Observer = SILENT
    ) -> None:
        self._embedder = embedder
        self.steps = steps
        self._observer = observer
        self._vectors: LRUCache[Key, np.ndarray] = LRUCache(kept)
        # The search re-ranks by a query, and then grades its hits by the same one.
        self._queries: LRUCache[tuple[str, str, int, str], np.ndarray] = LRUCache(_KEPT_QUERIES)

    def scores(self, query: str, passages: Sequence[RerankPassage], *, instruction: str) -> list[float]:
        """Cosines of query and passages. If the model gives a passage a vector per step, its best cosine counts."""
        if not passages:
            return []
        steps = min(max(self.steps, self._embedder.info.min_steps), self._embedder.info.max_steps)
        query_vector = self._embed_query(query, instruction, steps)
        vectors = self._embed(passages, instruction, steps)
        cosines = vectors @ query_vector
        return (cosines if cosines.ndim == 1 else cosines.max(axis=1)).astype(float).tolist()

    def close(self) -> None:
        """Does nothing: no resource is open."""

    def _embed_query(self, query: str, instruction: str, steps: int) -> np.ndarray:
        """Embeds the query: (D,), L2-normalised; cached."""

        def embed() -> np.ndarray:
            refinement = self._embedder.embed_query(query, instruction=instruction, steps=steps)
            return np.array(refinement.vector, dtype=np.float32)

        key = (query, instruction, steps, self._embedder.info.fingerprint)
        return self._queries.get_or_compute(key, embed)

    def _embed(self, passages: Sequence[RerankPassage], instruction: str, steps: int) -> np.ndarray:
        """The vectors of all passages: (n, D), or (n, K, D) for a model with a vector per step. Embeds only uncached
        passages."""
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
            embedded = embed([new[key] for key in part], instruction=instruction, steps=steps)
            fresh = {key: np.array(vector, dtype=np.float32) for key, vector in zip(part, embedded, strict=True)}
            self._vectors.keep(fresh)
            known |= fresh
        return np.stack([known[key] for key in keys])


def _parts(texts: dict[Key, str]) -> Iterator[list[Key]]:
    """Groups texts of similar length into calls small enough to be scheduled as queries."""
    part: list[Key] = []
    characters = 0
    for key in sorted(texts, key=lambda key: len(texts[key])):
        size = len(texts[key])
        if part and (len(part) == _PART_TEXTS or characters + size > _PART_CHARACTERS):
            yield part
            part, characters = [], 0
        part.append(key)
        characters += size
    if part:
        yield part
