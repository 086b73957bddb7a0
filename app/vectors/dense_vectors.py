"""Reads dense vectors of many points as one array, without their payloads.

The client's own types, which allow for every kind of vector, take twice as long; the embedded engine packs vectors,
since it would spend most of the time on writing them as JSON.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel
from qdrant_client import QdrantClient, models

from app.vectors.points import raw_id

PointId = int | str
_FLOAT32 = np.dtype("<f4")
_PACKED = {"vectors_as": "base64"}


class VectorPage(NamedTuple):
    """`vectors`: (n, D) float32, in the order of `ids`."""

    ids: list[str]
    vectors: np.ndarray
    following: PointId | None = None


class _Point(BaseModel):
    id: PointId
    vector: list[float] | str | dict[str, list[float] | str] | None = None


class _Scrolled(BaseModel):
    points: list[_Point]
    next_page_offset: PointId | None = None


class _ScrollAnswer(BaseModel):
    result: _Scrolled


class _PointsAnswer(BaseModel):
    result: list[_Point]


def post(client: QdrantClient, path: str, index: str, body: Mapping[str, Any], answer: Any) -> Any:
    """Past the client's own types. Raises NotImplementedError over its memory, which has no HTTP."""
    return client.http.client.request(
        type_=answer,
        method="POST",
        url=f"/collections/{{collection_name}}{path}",
        path_params={"collection_name": index},
        json=body,
    )


def scroll_vectors(
    client: QdrantClient, index: str, condition: models.Filter, *, limit: int, offset: PointId | None, is_packed: bool
) -> VectorPage:
    asked = models.ScrollRequest(offset=offset, limit=limit, filter=condition, with_payload=False, with_vector=[""])
    try:
        answer = _ask(client, "/points/scroll", index, asked, _ScrollAnswer, is_packed=is_packed)
    except NotImplementedError:  # the client's own memory
        found, following = client.scroll(index, condition, limit=limit, offset=offset, with_vectors=[""])
        return _page([_Point.model_validate(each, from_attributes=True) for each in found], _id_of(following))
    return _page(answer.result.points, answer.result.next_page_offset)


def retrieve_vectors(client: QdrantClient, index: str, ids: Sequence[str], *, is_packed: bool) -> VectorPage:
    raw: list[models.ExtendedPointId] = [raw_id(point_id) for point_id in ids]
    asked = models.PointRequest(ids=raw, with_payload=False, with_vector=[""])
    try:
        answer = _ask(client, "/points", index, asked, _PointsAnswer, is_packed=is_packed)
    except NotImplementedError:
        found = client.retrieve(index, raw, with_vectors=[""])
        return _page([_Point.model_validate(each, from_attributes=True) for each in found], None)
    return _page(answer.result, None)


def _ask(client: QdrantClient, path: str, index: str, asked: BaseModel, answer: Any, *, is_packed: bool) -> Any:
    body: Mapping[str, Any] = asked.model_dump(mode="json", by_alias=True, exclude_none=True)
    return post(client, path, index, {**body, **(_PACKED if is_packed else {})}, answer)


def _page(points: Sequence[_Point], following: PointId | None) -> VectorPage:
    """Points without a dense vector, which are of other programs, are left out."""
    dense = [(str(point.id), found) for point in points if (found := _dense_of(point.vector)) is not None]
    vectors = [found for _, found in dense]
    if vectors and isinstance(vectors[0], str):
        rows = np.frombuffer(b"".join(map(b64decode, vectors)), dtype=_FLOAT32).reshape(len(vectors), -1)  # type: ignore[arg-type]
    else:
        rows = np.asarray(vectors, dtype=np.float32)
    return VectorPage([point_id for point_id, _ in dense], rows, following)


def _id_of(point_id: models.ExtendedPointId | None) -> PointId | None:
    return point_id if point_id is None or isinstance(point_id, int) else str(point_id)


def _dense_of(vector: list[float] | str | Mapping[str, list[float] | str] | None) -> list[float] | str | None:
    return vector.get("") if isinstance(vector, Mapping) else vector
