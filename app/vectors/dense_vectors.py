"""Fetches dense vectors of many points as one array.

The Qdrant client's own types allow every kind of vector and take twice as long. The embedded engine sends vectors as
one binary block, since writing them as JSON would take most of the time.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel
from qdrant_client import QdrantClient, models

from app.types.documents import Point
from app.vectors.points import payload_of, raw_id, steps_of

TEXT_FIELD = "page_content"
PointId = int | str
_FLOAT32 = np.dtype("<f4")
_BLOCK = {"vectors_as": "block"}


class VectorPage(NamedTuple):
    """A page of points with their vectors. `vectors`: (n, D) float32, in the order of `ids`; for multivectors the last
    step's. `document_ids` and `texts` are "" if they were not requested, or the point has none."""

    ids: list[str]
    vectors: np.ndarray
    document_ids: list[str]
    texts: list[str]
    following: PointId | None = None


_Dense = list[float] | list[list[float]]


class _Point(BaseModel):
    id: PointId
    vector: _Dense | dict[str, _Dense] | None = None
    payload: dict[str, Any] | None = None
    vectors: int = 1  # number in the block


class _Scrolled(BaseModel):
    points: list[_Point]
    vectors: str | None = None  # base64 block with the vectors of all points
    next_page_offset: PointId | None = None


class _ScrollAnswer(BaseModel):
    result: _Scrolled


class _PointsAnswer(BaseModel):
    result: _Scrolled | list[_Point]


def post(client: QdrantClient, path: str, index: str, body: Mapping[str, Any], answer: Any) -> Any:
    """Sends a request without the client's own types; `answer` is the type to parse the response as.

    Raises NotImplementedError in the client's in-memory mode, which has no HTTP.
    """
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
    """One page of points with their texts. is_packed: whether the engine can send vectors as a block."""
    fields = [TEXT_FIELD]
    request = models.ScrollRequest(offset=offset, limit=limit, filter=condition, with_payload=fields, with_vector=[""])
    try:
        return _page(_send(client, "/points/scroll", index, request, _ScrollAnswer, is_packed=is_packed).result)
    except NotImplementedError:  # the client's in-memory mode
        records, following = client.scroll(
            index, condition, limit=limit, offset=offset, with_payload=fields, with_vectors=[""]
        )
        points = [_Point.model_validate(record, from_attributes=True) for record in records]
        return _page(_Scrolled(points=points, next_page_offset=_id_of(following)))


def retrieve_vectors(
    client: QdrantClient, index: str, ids: Sequence[str], *, is_packed: bool, fields: Sequence[str] = ()
) -> VectorPage:
    """Fetches points by id, with these fields of their payloads. Unknown ids are left out."""
    raw: list[models.ExtendedPointId] = [raw_id(point_id) for point_id in ids]
    with_payload: Any = list(fields) or False
    request = models.PointRequest(ids=raw, with_payload=with_payload, with_vector=[""])
    try:
        answer = _send(client, "/points", index, request, _PointsAnswer, is_packed=is_packed).result
    except NotImplementedError:
        records = client.retrieve(index, raw, with_payload=with_payload, with_vectors=[""])
        answer = [_Point.model_validate(record, from_attributes=True) for record in records]
    return _page(_Scrolled(points=answer) if isinstance(answer, list) else answer)


def retrieve_points(client: QdrantClient, index: str, ids: Sequence[str], *, is_packed: bool) -> list[Point]:
    """Fetches points by id, with payloads and the vectors of all steps. Unknown ids are left out."""
    raw: list[models.ExtendedPointId] = [raw_id(point_id) for point_id in ids]
    if not is_packed:
        records = client.retrieve(index, raw, with_payload=True, with_vectors=[""])
        found = [(str(record.id), steps_of(record.vector), payload_of(record.payload)) for record in records]
        return [Point.of_steps(point_id, steps, payload) for point_id, steps, payload in found if steps is not None]
    request = models.PointRequest(ids=raw, with_payload=True, with_vector=[""])
    answer = _send(client, "/points", index, request, _PointsAnswer, is_packed=True).result
    vectors, ends = _unpacked(answer)
    return [
        Point.of_steps(str(point.id), vectors[end - point.vectors : end].tolist(), payload_of(point.payload))
        for point, end in zip(answer.points, ends, strict=True)
    ]


def _send(client: QdrantClient, path: str, index: str, request: BaseModel, answer: Any, *, is_packed: bool) -> Any:
    body: Mapping[str, Any] = request.model_dump(mode="json", by_alias=True, exclude_none=True)
    return post(client, path, index, {**body, **(_BLOCK if is_packed else {})}, answer)


def _page(found: _Scrolled) -> VectorPage:
    """Leaves out points without a dense vector: gircse did not write them."""
    points = found.points
    if found.vectors is None:
        steps = [steps_of(point.vector) for point in points]
        points = [point for point, vectors_of_steps in zip(points, steps, strict=True) if vectors_of_steps is not None]
        vectors = np.asarray([one[-1] for one in steps if one is not None], dtype=np.float32)
    else:
        block, ends = _unpacked(found)
        vectors = block if len(block) == len(points) else block[[end - 1 for end in ends]]
    owners = [document_id_in(point.payload) for point in points]
    texts = [str((point.payload or {}).get(TEXT_FIELD, "")) for point in points]
    return VectorPage([str(point.id) for point in points], vectors, owners, texts, found.next_page_offset)


def _unpacked(found: _Scrolled) -> tuple[np.ndarray, list[int]]:
    """Decodes a block: all vectors (N, D), and for each point the end of its rows."""
    block = np.frombuffer(b64decode(found.vectors or ""), dtype=_FLOAT32)
    ends = list(accumulate(point.vectors for point in found.points))
    return (block.reshape(ends[-1], -1) if ends else block), ends


def document_id_in(payload: Mapping[str, Any] | None) -> str:
    """The document id in a payload, or ""."""
    metadata = (payload or {}).get("metadata")
    return str(metadata.get("document_id", "")) if isinstance(metadata, Mapping) else ""


def _id_of(point_id: models.ExtendedPointId | None) -> PointId | None:
    return point_id if point_id is None or isinstance(point_id, int) else str(point_id)
