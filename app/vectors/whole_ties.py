"""Searches whose results are always the same: Qdrant gives equal scores in varying order and cuts them off anywhere."""

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
    """All legs in one request, each with its limit. Of those that a tie crosses as many are asked for again as it takes
    to see the next score; of none where the server orders equal scores itself (`is_ordered`).
    """
    found: list[Sequence[models.ScoredPoint]] = [()] * len(legs)
    asked, more = list(range(len(legs))), 0 if is_ordered else 1
    while asked:
        requests = [
            legs[leg][0].model_copy(update={"limit": legs[leg][1] + more, "with_payload": with_payload})
            for leg in asked
        ]
        for leg, answer in zip(asked, client.query_batch_points(index, requests), strict=True):
            found[leg] = answer.points
        if is_ordered or more >= _MOST_TIES:
            break
        asked = [leg for leg in asked if _is_tie_cut_off(found[leg], legs[leg][1], more)]
        more = 3 * (more + max((legs[leg][1] for leg in asked), default=0))
    return [_best(each, limit) for each, (_, limit) in zip(found, legs, strict=True)]


def _is_tie_cut_off(found: Sequence[models.ScoredPoint], limit: int, more: int) -> bool:
    return len(found) == limit + more and found[-1].score == found[limit - 1].score


def _best(found: Sequence[models.ScoredPoint], limit: int) -> list[ScoredPoint]:
    hits = [ScoredPoint(id=str(hit.id), score=hit.score, payload=payload_of(hit.payload)) for hit in found]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]
