"""Reads dense vectors of many points as one array.

The client's own types, which allow for every kind of vector, take twice as long; the embedded engine packs vectors,
since it would spend most of the time on writing them as JSON.
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
    """`vectors`: (n, D) float32, in the order of `ids`; of multivectors the last. `document_ids` and `texts` are ""
    where they were not asked for, and of what has none."""

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
    vectors: int = 1  # in a block


class _Scrolled(BaseModel):
    points: list[_Point]
    vectors: str | None = None  # of all points, in a block
    next_page_offset: PointId | None = None


class _ScrollAnswer(BaseModel):
    result: _Scrolled


class _PointsAnswer(BaseModel):
    result: _Scrolled | list[_Point]


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
    """With texts."""
    fields = [TEXT_FIELD]
    asked = models.ScrollRequest(offset=offset, limit=limit, filter=condition, with_payload=fields, with_vector=[""])
    try:
        return _page(_ask(client, "/points/scroll", index, asked, _ScrollAnswer, is_packed=is_packed).result)
    except NotImplementedError:  # the client's own memory
        found, following = client.scroll(
            index, condition, limit=limit, offset=offset, with_payload=fields, with_vectors=[""]
        )
        points = [_Point.model_validate(each, from_attributes=True) for each in found]
        return _page(_Scrolled(points=points, next_page_offset=_id_of(following)))


def retrieve_vectors(
    client: QdrantClient, index: str, ids: Sequence[str], *, is_packed: bool, fields: Sequence[str] = ()
) -> VectorPage:
    """With what there is of these fields of the payload."""
    raw: list[models.ExtendedPointId] = [raw_id(point_id) for point_id in ids]
    chosen: Any = list(fields) or False
    asked = models.PointRequest(ids=raw, with_payload=chosen, with_vector=[""])
    try:
        answer = _ask(client, "/points", index, asked, _PointsAnswer, is_packed=is_packed).result
    except NotImplementedError:
        found = client.retrieve(index, raw, with_payload=chosen, with_vectors=[""])
        answer = [_Point.model_validate(each, from_attributes=True) for each in found]
    return _page(_Scrolled(points=answer) if isinstance(answer, list) else answer)


def retrieve_points(client: QdrantClient, index: str, ids: Sequence[str], *, is_packed: bool) -> list[Point]:
    """With their payloads."""
    raw: list[models.ExtendedPointId] = [raw_id(point_id) for point_id in ids]
    if not is_packed:
        records = client.retrieve(index, raw, with_payload=True, with_vectors=[""])
        found = [(str(each.id), steps_of(each.vector), payload_of(each.payload)) for each in records]
        return [Point.of_steps(each, steps, payload) for each, steps, payload in found if steps is not None]
    asked = models.PointRequest(ids=raw, with_payload=True, with_vector=[""])
    answer = _ask(client, "/points", index, asked, _PointsAnswer, is_packed=True).result
    vectors, ends = _unpacked(answer)
    return [
        Point.of_steps(str(point.id), vectors[end - point.vectors : end].tolist(), payload_of(point.payload))
        for point, end in zip(answer.points, ends, strict=True)
    ]


def _ask(client: QdrantClient, path: str, index: str, asked: BaseModel, answer: Any, *, is_packed: bool) -> Any:
    body: Mapping[str, Any] = asked.model_dump(mode="json", by_alias=True, exclude_none=True)
    return post(client, path, index, {**body, **(_BLOCK if is_packed else {})}, answer)


def _page(found: _Scrolled) -> VectorPage:
    """Points without a dense vector, which are of other programs, are left out."""
    points = found.points
    if found.vectors is None:
        steps = [steps_of(point.vector) for point in points]
        points = [point for point, own in zip(points, steps, strict=True) if own is not None]
        vectors = np.asarray([own[-1] for own in steps if own is not None], dtype=np.float32)
    else:
        block, ends = _unpacked(found)
        vectors = block if len(block) == len(points) else block[[end - 1 for end in ends]]
    owners = [document_id_in(point.payload) for point in points]
    texts = [str((point.payload or {}).get(TEXT_FIELD, "")) for point in points]
    return VectorPage([str(point.id) for point in points], vectors, owners, texts, found.next_page_offset)


def _unpacked(found: _Scrolled) -> tuple[np.ndarray, list[int]]:
    """All vectors of a block (N, D), and where those of each point end."""
    block = np.frombuffer(b64decode(found.vectors or ""), dtype=_FLOAT32)
    ends = list(accumulate(point.vectors for point in found.points))
    return (block.reshape(ends[-1], -1) if ends else block), ends


def document_id_in(payload: Mapping[str, Any] | None) -> str:
    """ "" where there is none."""
    metadata = (payload or {}).get("metadata")
    return str(metadata.get("document_id", "")) if isinstance(metadata, Mapping) else ""


def _id_of(point_id: models.ExtendedPointId | None) -> PointId | None:
    return point_id if point_id is None or isinstance(point_id, int) else str(point_id)
