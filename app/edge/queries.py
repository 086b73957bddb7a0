"""Deterministic search in one shard: sorted by score, equal scores by id.

Edge returns equal scores in varying order and cuts them off arbitrarily, so all points of a tie at the limit are
fetched.
"""

from __future__ import annotations

from array import array
from base64 import b64encode
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import qdrant_edge as edge

from app.edge.filters import Filter, HasId
from app.edge.messages import Prefetch, QueryPoints, Rrf, SearchParams
from app.edge.values import PayloadChoice, PointId, is_multivector, vector_to_edge

Ranked = list[tuple[PointId, float]]
_SPARE = 16  # points fetched beyond the limit, to detect a tie across it


@dataclass(frozen=True, slots=True)
class QueryStage:
    """One query to run. `condition` combines its own filter with those of all enclosing stages."""

    request: Prefetch
    condition: Filter | None
    limit: int


def query_points(shard: edge.EdgeShard, requests: Sequence[QueryPoints]) -> list[list[dict[str, object]]]:
    stages = [QueryStage(request, request.filter, request.offset + request.limit) for request in requests]
    return [_points(shard, request, ranked) for request, ranked in zip(requests, _ranked(shard, stages), strict=True)]


def _points(shard: edge.EdgeShard, request: QueryPoints, ranked: Ranked) -> list[dict[str, object]]:
    ranked = ranked[request.offset :]
    ids = [point_id for point_id, _ in ranked]
    if not request.with_payload and not request.with_vector:  # nothing has to be fetched
        return [{"id": point_id, "payload": None, "version": 0, "score": score} for point_id, score in ranked]
    payload = payload_choice(request.with_payload)
    found = shard.retrieve(point_ids=[*ids], with_payload=payload, with_vector=request.with_vector)
    records = {record.id: record_to_json(record) for record in found}
    return [{**records[point_id], "version": 0, "score": score} for point_id, score in ranked]


def record_to_json(record: edge.Record) -> dict[str, object]:
    answer: dict[str, object] = {"id": record.id, "payload": record.payload}
    vector = record.vector  # every access creates a new list
    if vector is not None:
        answer["vector"] = _vector_to_json(vector)
    return answer


def block_of(records: Sequence[edge.Record]) -> dict[str, object]:
    """Ids and payloads of the records with a dense vector, and all their vectors as one base64 text of float32.

    For a multivector, `vectors` of the point is the number of its vectors.
    """
    points, vectors = [], []
    for record in records:
        vector = record.vector
        dense = vector.get("") if isinstance(vector, dict) else vector
        if is_multivector(dense):
            rows = cast("list[list[float]]", dense)
            points.append({"id": record.id, "payload": record.payload, "vectors": len(rows)})
            vectors += [array("f", row).tobytes() for row in rows]
        elif isinstance(dense, list):
            points.append({"id": record.id, "payload": record.payload})
            vectors.append(array("f", cast("list[float]", dense)).tobytes())
    return {"points": points, "vectors": b64encode(b"".join(vectors)).decode("ascii")}


def payload_choice(choice: PayloadChoice) -> Any:
    if not isinstance(choice, dict):
        return choice
    if "exclude" in choice:
        return edge.PayloadSelector.Exclude(keys=choice["exclude"])
    return edge.PayloadSelector.Include(keys=choice.get("include", []))


def _ranked(shard: edge.EdgeShard, stages: Sequence[QueryStage]) -> list[Ranked]:
    """The ranking of each stage. All stages without prefetches run in one call."""
    nearest = iter(_nearest(shard, [stage for stage in stages if not stage.request.prefetch]))
    return [_of_prefetches(shard, stage) if stage.request.prefetch else next(nearest) for stage in stages]


def _of_prefetches(shard: edge.EdgeShard, stage: QueryStage) -> Ranked:
    request, condition, limit = stage.request, stage.condition, stage.limit
    inner = [QueryStage(each, _both(condition, each.filter), each.limit) for each in request.prefetch]
    rankings = _ranked(shard, inner)
    if request.rrf is not None:
        fused = _fuse(rankings, request.rrf)
        return [pair for pair in fused if request.score_threshold is None or pair[1] >= request.score_threshold][:limit]
    candidates = Filter(must=[HasId(has_id=[point_id for ranking in rankings for point_id, _ in ranking])])
    return _nearest(shard, [QueryStage(request, _both(condition, candidates), limit)])[0]


def _nearest(shard: edge.EdgeShard, stages: Sequence[QueryStage]) -> list[Ranked]:
    """The nearest points of each stage. One call scans all points for all stages; stages with a tie are repeated."""
    points = shard.info().points_count
    limits = {number: min(stage.limit + _SPARE, points + 1) for number, stage in enumerate(stages)}
    rankings: list[Ranked] = [[] for _ in stages]
    while limits:
        requests = [_request(stages[number], limit) for number, limit in limits.items()]
        answers = shard.query_batch(request=edge.QueryBatchRequest(queries=requests))
        for number, found in zip(list(limits), answers, strict=True):
            limit = stages[number].limit
            if len(found) < limits[number] or found[-1].score < found[limit - 1].score:
                rankings[number] = _in_order((point.id, point.score) for point in found)[:limit]
                del limits[number]
            else:
                limits[number] = min(4 * limits[number], points + 1)
    return rankings


def _request(stage: QueryStage, limit: int) -> edge.QueryRequest:
    request = stage.request
    return edge.QueryRequest(
        limit=limit,
        query=edge.Query.Nearest(query=vector_to_edge(request.nearest), using=request.using),
        filter=stage.condition.to_edge() if stage.condition else None,
        score_threshold=request.score_threshold,
        params=(request.params or SearchParams()).to_edge(),
        with_payload=False,
        with_vector=False,
    )


def _fuse(stages: Sequence[Ranked], rrf: Rrf) -> Ranked:
    """Reciprocal rank fusion with Qdrant's formula. Edge's own is not deterministic: its stages order ties randomly."""
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
    return {"indices": vector.indices, "values": vector.values} if isinstance(vector, edge.SparseVector) else vector
