"""Makes search results deterministic: Qdrant returns equal scores in varying order, and cuts them off at the limit."""

from __future__ import annotations

from collections.abc import Sequence

from qdrant_client import QdrantClient, models

from app.types.documents import ScoredPoint
from app.vectors.points import payload_of

_MOST_TIES = 10_000


def query_whole_ties(
    client: QdrantClient,
    *,
    index: str,
    legs: Sequence[tuple[models.QueryRequest, int]],
    with_payload: bool,
    is_ordered: bool = False,
) -> list[list[ScoredPoint]]:
    """Runs all legs (query, limit) in one request; each result is sorted by score, then id.

    If equal scores cross a leg's limit, repeats that leg with a higher limit until a lower score appears (at most about
    _MOST_TIES points more). is_ordered: the server orders equal scores by id itself, so nothing is repeated.
    """
    found: list[Sequence[models.ScoredPoint]] = [()] * len(legs)
    pending, more = list(range(len(legs))), 0 if is_ordered else 1
    while pending:
        requests = [
            legs[leg][0].model_copy(update={"limit": legs[leg][1] + more, "with_payload": with_payload})
            for leg in pending
        ]
        for leg, answer in zip(pending, client.query_batch_points(index, requests), strict=True):
            found[leg] = answer.points
        if is_ordered or more >= _MOST_TIES:
            break
        pending = [leg for leg in pending if _is_tie_cut_off(found[leg], legs[leg][1], more)]
        more = 3 * (more + max((legs[leg][1] for leg in pending), default=0))
    return [_best(points, limit) for points, (_, limit) in zip(found, legs, strict=True)]


def _is_tie_cut_off(found: Sequence[models.ScoredPoint], limit: int, more: int) -> bool:
    return len(found) == limit + more and found[-1].score == found[limit - 1].score


def _best(found: Sequence[models.ScoredPoint], limit: int) -> list[ScoredPoint]:
    hits = [ScoredPoint(id=str(hit.id), score=hit.score, payload=payload_of(hit.payload)) for hit in found]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]
