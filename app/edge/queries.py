"""Search over one shard with a result that is always the same: best score first, equal scores in the order of ids.

Edge gives equal scores in varying order and cuts them off anywhere, so ties at the limit are fetched whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import qdrant_edge as edge

from app.edge.filters import Filter, HasId
from app.edge.messages import Prefetch, QueryPoints, Rrf, SearchParams
from app.edge.values import PayloadChoice, PointId, VectorChoice, vector_to_edge

Ranked = list[tuple[PointId, float]]
_SPARE = 16  # asked beyond the limit, to see whether a tie crosses it


def query_points(shard: edge.EdgeShard, request: QueryPoints) -> list[dict[str, object]]:
    ranked = _ranked(shard, request, request.filter, request.offset + request.limit)[request.offset :]
    ids = [point_id for point_id, _ in ranked]
    records = {record["id"]: record for record in retrieve(shard, ids, request.with_payload, request.with_vector)}
    return [{**records[point_id], "version": 0, "score": score} for point_id, score in ranked]


def retrieve(
    shard: edge.EdgeShard, ids: Sequence[PointId], with_payload: PayloadChoice, with_vector: VectorChoice
) -> list[dict[str, object]]:
    found = shard.retrieve(point_ids=list(ids), with_payload=payload_choice(with_payload), with_vector=with_vector)
    return [record_to_json(record) for record in found]


def record_to_json(record: edge.Record) -> dict[str, object]:
    answer: dict[str, object] = {"id": record.id, "payload": record.payload}
    if record.vector is not None:
        answer["vector"] = _vector_to_json(record.vector)
    return answer


def payload_choice(choice: PayloadChoice) -> Any:
    if not isinstance(choice, dict):
        return choice
    if "exclude" in choice:
        return edge.PayloadSelector.Exclude(keys=choice["exclude"])
    return edge.PayloadSelector.Include(keys=choice.get("include", []))


def _ranked(shard: edge.EdgeShard, request: Prefetch, condition: Filter | None, limit: int) -> Ranked:
    """`condition` is the request's own filter and those of the stages around it, which apply to every stage."""
    if not request.prefetch:
        return _nearest(shard, request, condition, limit)
    stages = [_ranked(shard, stage, _both(condition, stage.filter), stage.limit) for stage in request.prefetch]
    if request.rrf is not None:
        fused = _fuse(stages, request.rrf)
        return [pair for pair in fused if request.score_threshold is None or pair[1] >= request.score_threshold][:limit]
    candidates = Filter(must=[HasId(has_id=[point_id for stage in stages for point_id, _ in stage])])
    return _nearest(shard, request, _both(condition, candidates), limit)


def _nearest(shard: edge.EdgeShard, request: Prefetch, condition: Filter | None, limit: int) -> Ranked:
    points = shard.info().points_count
    ask = limit + _SPARE
    params = (request.params or SearchParams()).to_edge()
    while True:
        ask = min(ask, points + 1)
        found = shard.query(
            query=edge.QueryRequest(
                limit=ask,
                query=edge.Query.Nearest(query=vector_to_edge(request.nearest), using=request.using),
                filter=condition.to_edge() if condition else None,
                score_threshold=request.score_threshold,
                params=params,
                with_payload=False,
                with_vector=False,
            )
        )
        if len(found) < ask or found[-1].score < found[limit - 1].score:
            return _in_order((point.id, point.score) for point in found)[:limit]
        ask *= 4


def _fuse(stages: Sequence[Ranked], rrf: Rrf) -> Ranked:
    """Reciprocal rank fusion as Qdrant does it. Edge's own runs over stages whose ties come in varying order."""
    scores: dict[PointId, float] = defaultdict(float)
    for stage in stages:
        for position, (point_id, _) in enumerate(stage):
            scores[point_id] += 1 / (rrf.k + position)
    return _in_order(scores.items())


def _in_order(pairs: Any) -> Ranked:
    return sorted(pairs, key=lambda pair: (-pair[1], isinstance(pair[0], UUID), pair[0]))


def _both(first: Filter | None, second: Filter | None) -> Filter | None:
    if first is None or second is None:
        return first or second
    return Filter(must=[first, second])


def _vector_to_json(vector: Any) -> Any:
    if isinstance(vector, dict):
        return {name: _vector_to_json(value) for name, value in vector.items()}
    if isinstance(vector, edge.SparseVector):
        return {"indices": vector.indices, "values": vector.values}
    return vector
