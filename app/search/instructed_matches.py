"""Grades how well passages answer a query under an instruction (weak, fair, strong), on one scale for all instructions.

The grade is the cosine of query and passage, both embedded under the instruction. The model is trained to make these
vectors near if and only if both texts agree in what the instruction asks for, so the same two bounds hold for all
instructions and collections. Another model has other bounds: docs/evaluation/calibration.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.ports.parts import Embedder, SearchedIndex
from app.ports.rerank import Reranker
from app.search.gircse_reranker import STEPS, EmbedderReranker
from app.search.reranking import passage_of
from app.search.retrieval import is_by_gircse
from app.types.documents import Collection
from app.types.search import Match


class InstructedMatches:
    """Grades passages under an instruction. Thread-safe."""

    def __init__(self, index: SearchedIndex, embedder: Embedder, reranker: Reranker | None = None) -> None:
        """reranker: of the searches. If it uses the embedder itself, its cached vectors are reused."""
        self._index = index
        self._embedder = embedder
        keeps = isinstance(reranker, EmbedderReranker) and reranker.steps == STEPS
        self._reranker = reranker if reranker and keeps else EmbedderReranker(embedder)

    @property
    def has_scale(self) -> bool:
        return self._embedder.info.match_cosines is not None

    def matches(self, query: str, ids: Sequence[str], collection: Collection, *, instruction: str) -> dict[str, Match]:
        """Grades points by id; leaves out points that were deleted since. Empty if the model has no such bounds."""
        if not self.has_scale:
            return {}
        payloads = self._index.payloads(collection.active_index, ids)
        return self.matches_of(query, payloads, instruction=instruction)

    def matches_of(
        self, query: str, payloads: Mapping[str, Mapping[str, object]], *, instruction: str
    ) -> dict[str, Match]:
        """Like `matches`. payloads: by point id."""
        bounds = self._embedder.info.match_cosines
        own = {point_id: payload for point_id, payload in payloads.items() if is_by_gircse(payload)}
        if bounds is None or not own:
            return {}
        passages = [passage_of(point_id, payload) for point_id, payload in own.items()]
        cosines = self._reranker.scores(query, passages, instruction=instruction)
        return {point_id: _match(cosine, bounds) for point_id, cosine in zip(own, cosines, strict=True)}


def _match(cosine: float, bounds: tuple[float, float]) -> Match:
    fair, strong = bounds
    return Match.STRONG if cosine >= strong else Match.FAIR if cosine >= fair else Match.WEAK
