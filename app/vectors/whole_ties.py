"""Searches whose results are always the same: Qdrant gives equal scores in varying order and cuts them off anywhere."""

from __future__ import annotations

from collections.abc import Sequence

from qdrant_client import QdrantClient, models

from app.types.documents import ScoredPoint
from app.vectors.points import payload_of

_MOST_TIES = 10_000


def query_whole_ties(
    client: QdrantClient, *, index: str, legs: Sequence[tuple[models.QueryRequest, int]], with_payload: bool
) -> list[list[ScoredPoint]]:
    """All legs in one request, each with its limit; as many are fetched as it takes to see the next score."""
    more = 1
    while True:
        requests = [leg.model_copy(update={"limit": limit + more, "with_payload": with_payload}) for leg, limit in legs]
        answers = [answer.points for answer in client.query_batch_points(index, requests)]
        if more >= _MOST_TIES or not any(
            len(found) == limit + more and found[-1].score == found[limit - 1].score
            for found, (_, limit) in zip(answers, legs, strict=True)
        ):
            return [_best(found, limit) for found, (_, limit) in zip(answers, legs, strict=True)]
        more = 3 * (more + max(limit for _, limit in legs))


def _best(found: Sequence[models.ScoredPoint], limit: int) -> list[ScoredPoint]:
    hits = [ScoredPoint(id=str(hit.id), score=hit.score, payload=payload_of(hit.payload)) for hit in found]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]
