"""Executes requests: from the body of a Qdrant REST call to the `result` of the response. Independent of HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

import qdrant_edge as edge

from app.edge import messages
from app.edge.connection import API_VERSION, TITLE
from app.edge.errors import RefusedRequestError
from app.edge.filters import filter_to_edge
from app.edge.optimizing import Optimizer
from app.edge.queries import block_of, payload_choice, query_points, record_to_json
from app.edge.shards import Shards
from app.edge.values import AnyVector, PointId, SparseVectorMessage, is_multivector

PathParams = Mapping[str, str]
_DONE = {"operation_id": 0, "status": "completed"}


def version() -> object:
    return {"title": TITLE, "version": API_VERSION}


def list_collections(shards: Shards, path: PathParams, body: bytes) -> object:
    return {"collections": [{"name": name} for name in shards.names()]}


def describe_collection(optimizer: Optimizer, path: PathParams, body: bytes) -> object:
    name, shards = path["name"], optimizer.shards
    info, config = shards.shard(name).info(), shards.config(name)
    error = optimizer.error(name)
    params = config.model_dump(include={"vectors", "sparse_vectors"}, exclude_none=True)
    return {
        "status": _status(optimizer, name),
        "optimizer_status": "ok" if error is None else {"error": error},
        "indexed_vectors_count": info.indexed_vectors_count,
        "points_count": info.points_count,
        "segments_count": info.segments_count,
        "config": {
            "params": {**params, "shard_number": 1, "replication_factor": 1, "write_consistency_factor": 1},
            "quantization_config": config.model_dump(include={"quantization_config"})["quantization_config"],
            # The rest is fixed: Qdrant's defaults, which its clients require.
            "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000},
            "optimizer_config": {
                **config.optimizers_config.model_dump(),
                "deleted_threshold": 0.2,
                "vacuum_min_vector_number": 1000,
                "default_segment_number": 0,
                "flush_interval_sec": 5,
            },
        },
        "payload_schema": {
            field: {"data_type": str(index.data_type).rpartition(".")[2].lower(), "points": index.points}
            for field, index in info.payload_schema.items()
        },
    }


def collection_exists(shards: Shards, path: PathParams, body: bytes) -> object:
    known = {*shards.names(), *(alias for alias, _ in shards.aliases())}
    return {"exists": path["name"] in known}


def create_collection(shards: Shards, path: PathParams, body: bytes) -> object:
    shards.create(path["name"], messages.CreateCollection.model_validate_json(body))
    return True


def delete_collection(optimizer: Optimizer, path: PathParams, body: bytes) -> object:
    optimizer.cancel(path["name"])
    return optimizer.shards.delete(path["name"])


def update_collection(optimizer: Optimizer, path: PathParams, body: bytes) -> object:
    """Start optimizing with the new configuration, which takes effect at the end.

    A request without changes also optimizes, as in Qdrant.
    """
    change, config = messages.UpdateCollection.model_validate_json(body), optimizer.shards.config(path["name"])
    if unknown := change.vectors.keys() - config.dense.keys():
        raise RefusedRequestError(400, f"Wrong input: Not existing vector name error: {min(unknown)!r}")
    optimizer.ask(path["name"], change.applied_to(config))
    return True


def list_optimizations(optimizer: Optimizer, path: PathParams, body: bytes) -> object:
    stage = optimizer.stage(path["name"])
    shard_id = uuid.UUID(optimizer.shards.folder(path["name"]).name)
    about = {"uuid": shard_id, "optimizer": "edge", "status": "optimizing", "segments": []}
    return {
        "summary": {"queued_optimizations": 0, "queued_segments": 0, "queued_points": 0, "idle_segments": 0},
        "running": [] if stage is None else [{**about, "progress": asdict(stage)}],
    }


def upsert(shards: Shards, path: PathParams, body: bytes) -> object:
    points = messages.UpsertPoints.model_validate_json(body).points
    config = shards.config(path["name"])
    for point in points:
        for using, vector in point.vectors.items():
            _check_vector(config, using, vector)
    operation = edge.UpdateOperation.upsert_points(points=[point.to_edge() for point in points])
    shards.update_points(path["name"], operation, [point.id for point in points])
    return _DONE


def retrieve_points(shards: Shards, path: PathParams, body: bytes) -> object:
    request, shard = messages.RetrievePoints.model_validate_json(body), shards.shard(path["name"])
    payload = payload_choice(request.with_payload)
    found = shard.retrieve(point_ids=[*request.ids], with_payload=payload, with_vector=request.with_vector)
    return block_of(found) if request.vectors_as == "block" else [record_to_json(each) for each in found]


def delete_points(shards: Shards, path: PathParams, body: bytes) -> object:
    chosen = messages.DeletePoints.model_validate_json(body).to_edge()
    if isinstance(chosen, edge.Filter):
        operation = edge.UpdateOperation.delete_points_by_filter(filter=chosen)
    else:
        operation = edge.UpdateOperation.delete_points(point_ids=list(chosen))
    shards.update_points(path["name"], operation, chosen)
    return _DONE


def update_batch(shards: Shards, path: PathParams, body: bytes) -> object:
    """Set and delete payload keys. Filters by ids alone become lists of existing ids, which Edge handles 3x faster."""
    name, changes = path["name"], messages.BatchUpdate.model_validate_json(body).operations
    ids: list[PointId | str] = [each for change in changes for each in change.filtered_ids or ()]
    existing = {
        record.id for record in shards.shard(name).retrieve(point_ids=ids, with_payload=False, with_vector=False)
    }
    for change in changes:
        if change.filtered_ids is None:
            shards.update_points(name, change.to_edge(), change.points)
        elif present := [each for each in change.filtered_ids if each in existing]:
            shards.update_points(name, change.to_edge(present), present)
    return [_DONE] * len(changes)


def set_labels(shards: Shards, path: PathParams, body: bytes) -> object:
    """Set the labels of the points that exist; ignore the others."""
    name, message = path["name"], messages.SetLabels.model_validate_json(body)
    ids: list[PointId | str] = [*message.ids]
    existing = {
        record.id for record in shards.shard(name).retrieve(point_ids=ids, with_payload=False, with_vector=False)
    }
    for point_id, label in zip(message.ids, message.labels, strict=True):
        if point_id in existing:
            operation = edge.UpdateOperation.set_payload(point_ids=[point_id], payload={message.key: label})
            shards.update_points(name, operation, [point_id])
    return _DONE


def query(shards: Shards, path: PathParams, body: bytes) -> object:
    request = messages.QueryPoints.model_validate_json(body)
    _check_query(shards.config(path["name"]), request)
    return {"points": query_points(shards.shard(path["name"]), [request])[0]}


def query_batch(shards: Shards, path: PathParams, body: bytes) -> object:
    requests = messages.QueryBatch.model_validate_json(body).searches
    for request in requests:
        _check_query(shards.config(path["name"]), request)
    return [{"points": points} for points in query_points(shards.shard(path["name"]), requests)]


def scroll(shards: Shards, path: PathParams, body: bytes) -> object:
    request = messages.ScrollPoints.model_validate_json(body)
    records, next_offset = shards.shard(path["name"]).scroll(
        scroll=edge.ScrollRequest(
            offset=request.offset,
            limit=request.limit,
            filter=filter_to_edge(request.filter),
            with_payload=payload_choice(request.with_payload),
            with_vector=request.with_vector,
        )
    )
    points = block_of(records) if request.vectors_as == "block" else {"points": [*map(record_to_json, records)]}
    return {**points, "next_page_offset": next_offset}


def count(shards: Shards, path: PathParams, body: bytes) -> object:
    request, shard = messages.CountPoints.model_validate_json(body), shards.shard(path["name"])
    if request.filter is None:  # no need to count every point
        return {"count": shard.info().points_count}
    condition = filter_to_edge(request.filter)
    return {"count": shard.count(count=edge.CountRequest(exact=True, filter=condition))}


def facet(shards: Shards, path: PathParams, body: bytes) -> object:
    request = messages.Facet.model_validate_json(body)
    shard = shards.shard(path["name"])
    if request.key not in shard.info().payload_schema:
        raise RefusedRequestError(
            400, f"Bad request: no payload index on `{request.key}`: create a keyword index on it first"
        )
    condition = filter_to_edge(request.filter)
    found = shard.facet(
        facet=edge.FacetRequest(key=request.key, limit=request.limit, exact=request.exact, filter=condition)
    )
    return {"hits": [{"value": hit.value, "count": hit.count} for hit in found.hits]}


def create_index(optimizer: Optimizer, path: PathParams, body: bytes) -> object:
    """Create a payload index at once (seconds per million points), or with `wait=false` at the next optimization."""
    request = messages.CreateIndex.model_validate_json(body)
    if path["wait"] == "false":
        optimizer.index_later(path["name"], request)
        return {"operation_id": 0, "status": "acknowledged"}
    optimizer.shards.update_schema(path["name"], request.to_edge())
    return _DONE


def delete_index(shards: Shards, path: PathParams, body: bytes) -> object:
    shards.update_schema(path["name"], edge.UpdateOperation.delete_field_index(field_name=path["field"]))
    return _DONE


def change_aliases(shards: Shards, path: PathParams, body: bytes) -> object:
    shards.change_aliases(messages.ChangeAliases.model_validate_json(body).actions)
    return True


def list_aliases(shards: Shards, path: PathParams, body: bytes) -> object:
    """Aliases of the collection in the path, or of all collections."""
    return {
        "aliases": [
            {"alias_name": alias, "collection_name": collection}
            for alias, collection in shards.aliases(path.get("name"))
        ]
    }


def _status(optimizer: Optimizer, name: str) -> str:
    """Qdrant's status of a collection. Grey: an optimization was interrupted by a crash and must be requested again."""
    if optimizer.is_running(name):
        return "yellow"
    if optimizer.error(name) is not None:
        return "red"
    return "grey" if optimizer.shards.awaits_optimizing(name) else "green"


def _check_query(config: messages.CreateCollection, request: messages.QueryPoints) -> None:
    for stage in _stages(request):
        if stage.rrf is None:
            _check_vector(config, stage.using, stage.nearest)
        elif not stage.prefetch:
            raise RefusedRequestError(400, "Bad request: a fusion needs prefetches to fuse")


def _stages(request: messages.Prefetch) -> list[messages.Prefetch]:
    return [request, *(inner for stage in request.prefetch for inner in _stages(stage))]


def _check_vector(config: messages.CreateCollection, using: str, vector: AnyVector) -> None:
    """Raise RefusedError for a wrong vector. Edge would raise a plain `Exception`, as it does for internal errors."""
    is_sparse = isinstance(vector, SparseVectorMessage)
    if using not in (config.sparse_vectors if is_sparse else config.dense):
        kind = "sparse" if is_sparse else "dense"
        raise RefusedRequestError(
            400, f"Wrong input: Not existing vector name error: no {kind} vector is named {using!r}"
        )
    if isinstance(vector, SparseVectorMessage):
        return
    params, several = config.dense[using], is_multivector(vector)
    if several and params.multivector_config is None:
        raise RefusedRequestError(
            400, f"Wrong input: Conversion between multi and regular vectors failed: {using!r} is no multivector"
        )
    for each in cast("list[list[float]]", vector if several else [vector]):
        if len(each) != params.size:
            raise RefusedRequestError(
                400, f"Wrong input: Vector dimension error: expected dim: {params.size}, got {len(each)}"
            )
