"""Stores labels in payloads of Qdrant points, with a payload index of the values' numbers for filters and counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel
from qdrant_client import QdrantClient, models

from app.errors import EngineFaultError
from app.ports.parts import TextVectors
from app.types.documents import Owned, Point
from app.types.lens_indexes import UNLABELLED_PAGE, Label
from app.vectors.dense_vectors import TEXT_FIELD, document_id_in, post, retrieve_vectors, scroll_vectors
from app.vectors.filtering import FilteredPoints
from app.vectors.filters import DOCUMENT_ID_FIELD, label_path, metadata_filter, of_ids
from app.vectors.points import payload_of, raw_id

T = TypeVar("T")

_MOST_LABELS = 1_000
_LABELS_PAGE = 500  # points per page; small, since searches wait while the embedded engine reads one


class _Done(BaseModel):
    status: str


class _Labelled(BaseModel):
    id: int | str
    payload: dict[str, Any] | None = None


class _Found(BaseModel):
    result: list[_Labelled]


class _Page(BaseModel):
    points: list[_Labelled]
    next_page_offset: int | str | None = None


class _PageFound(BaseModel):
    result: _Page


class LabelledPoints(FilteredPoints):
    """Stores labels in payloads, and filters and counts by them. Implements `Labels`, a part of `VectorIndex`."""

    _is_embedded: bool  # whether the engine is app/edge

    def add_labels(self, index: str, field: str) -> None:
        create = partial(QdrantClient.create_payload_index, collection_name=index, field_name=label_path(field))
        self._call(index, partial(create, field_schema=models.PayloadSchemaType.INTEGER, wait=True))

    def set_labels(self, index: str, field: str, labels: Mapping[str, Mapping[str, object]]) -> None:
        if labels:
            write = _send_labels if self._is_embedded else _set_labels
            self._call(index, partial(write, index=index, field=field, labels=labels))

    def drop_labels(self, index: str, field: str) -> None:
        """Deletes the payload index first, then the labels: a Qdrant server keeps values in the index when their parent
        field is deleted, and filters would still match them.

        Raises EngineFaultError if points still have labels afterwards.
        """
        self._call(index, lambda client: client.delete_payload_index(index, label_path(field), wait=True))
        has_label = models.Filter(must_not=[_is_empty(field)])
        for records in self._pages(index, scroll_filter=has_label, with_payload=False):
            if records:
                change = models.DeletePayload(keys=[field], filter=of_ids([str(record.id) for record in records]))
                operation = models.DeletePayloadOperation(delete_payload=change)
                update = partial(QdrantClient.batch_update_points, collection_name=index, wait=True)
                self._call(index, partial(update, update_operations=[operation]))
        left = self._call(index, lambda client: client.count(index, count_filter=has_label, exact=True).count)
        if left:
            raise EngineFaultError(
                f"The vector index {index!r} still has labels {field!r} on {left} points after their deletion. The "
                "deletion will be repeated; if the error persists, restart Qdrant."
            )

    def unlabelled(self, index: str, field: str) -> Iterator[tuple[list[str], TextVectors]]:
        condition = models.Filter(must=[_is_empty(field)], must_not=[_is_empty(DOCUMENT_ID_FIELD)])
        scroll = partial(
            scroll_vectors, index=index, condition=condition, limit=UNLABELLED_PAGE, is_packed=self._is_embedded
        )
        offset: int | str | None = None
        while True:
            page = self._call(index, partial(scroll, offset=offset))
            if page.ids:
                yield page.ids, TextVectors(page.texts, page.vectors)
            offset = page.following
            if offset is None:
                return

    def labelled(self, index: str, field: str, *, value: int | None = None) -> Iterator[list[Point]]:
        if value is None:
            condition: models.Filter | None = models.Filter(must_not=[_is_empty(label_path(field))])
        else:
            condition = metadata_filter(None, Label(field, value))
        for records in self._pages(index, scroll_filter=condition):
            yield [Point(str(record.id), [], payload_of(record.payload)) for record in records]

    def vectors(self, index: str, ids: Sequence[str]) -> tuple[list[str], np.ndarray]:
        fetch = partial(retrieve_vectors, index=index, ids=ids, is_packed=self._is_embedded)
        page = self._call(index, fetch)
        return page.ids, page.vectors

    def owned_vectors(self, index: str, ids: Sequence[str]) -> Owned[TextVectors]:
        fetch = partial(retrieve_vectors, index=index, ids=ids, is_packed=self._is_embedded)
        page = self._call(index, partial(fetch, fields=[DOCUMENT_ID_FIELD, TEXT_FIELD]))
        rows = [row for row, owner in enumerate(page.document_ids) if owner]
        vectors = TextVectors([page.texts[row] for row in rows], page.vectors[rows])
        return Owned([page.ids[row] for row in rows], [page.document_ids[row] for row in rows], vectors)

    def owned_labels(self, index: str, field: str, ids: Sequence[str]) -> Owned[Sequence[Mapping[str, object] | None]]:
        raw: list[models.ExtendedPointId] = [raw_id(point_id) for point_id in ids]
        fields = [DOCUMENT_ID_FIELD, field]

        def fetch(client: QdrantClient) -> list[tuple[str, dict[str, Any]]]:
            try:
                body = {"ids": raw, "with_payload": fields}
                points = post(client, "/points", index, body, _Found).result
            except NotImplementedError:  # the client's in-memory mode
                points = client.retrieve(index, raw, with_payload=fields)
            return [(str(point.id), point.payload or {}) for point in points]

        payloads = {point_id: payload for point_id, payload in self._call(index, fetch) if document_id_in(payload)}
        owners = [document_id_in(payload) for payload in payloads.values()]
        return Owned(list(payloads), owners, [payload.get(field) for payload in payloads.values()])

    def all_labels(self, index: str, field: str) -> Iterator[Mapping[str, Mapping[str, object]]]:
        scroll = partial(_scroll_labels, index=index, field=field)
        offset: int | str | None = None
        while True:
            page = self._call(index, partial(scroll, offset=offset))
            yield {str(point.id): label for point in page.points if (label := (point.payload or {}).get(field))}
            offset = page.next_page_offset
            if offset is None:
                return

    def count_unlabelled(self, index: str, field: str) -> int:
        condition = models.Filter(must=[_is_empty(label_path(field))], must_not=[_is_empty(DOCUMENT_ID_FIELD)])
        return self._call(index, lambda client: client.count(index, count_filter=condition, exact=True).count)

    def label_counts(self, index: str, field: str, *, filters: Mapping[str, str] | None = None) -> dict[int, int]:
        facet = partial(
            QdrantClient.facet, collection_name=index, key=label_path(field), limit=_MOST_LABELS, exact=True
        )
        found = self._call(index, partial(facet, facet_filter=self._condition(index, filters)))
        return {int(hit.value): hit.count for hit in found.hits if hit.count}  # some engines list old values with 0


def _is_empty(field: str) -> models.IsEmptyCondition:
    return models.IsEmptyCondition(is_empty=models.PayloadField(key=field))


def _scroll_labels(client: QdrantClient, *, index: str, field: str, offset: int | str | None) -> _Page:
    try:
        body = {"limit": _LABELS_PAGE, "offset": offset, "with_payload": [field], "with_vector": False}
        page: _Page = post(client, "/points/scroll", index, body, _PageFound).result
    except NotImplementedError:  # the client's in-memory mode
        records, following = client.scroll(index, limit=_LABELS_PAGE, offset=offset, with_payload=[field])
        points = [_Labelled(id=str(record.id), payload=record.payload) for record in records]
        page = _Page(points=points, next_page_offset=None if following is None else str(following))
    return page


def _send_labels(client: QdrantClient, *, index: str, field: str, labels: Mapping[str, Mapping[str, object]]) -> None:
    """Sends all labels in one request that only the embedded engine knows: one operation per point would take as long
    to parse as to execute."""
    body = {"key": field, "ids": [raw_id(point_id) for point_id in labels], "labels": list(labels.values())}
    post(client, "/points/labels", index, body, _Done)


def _set_labels(client: QdrantClient, *, index: str, field: str, labels: Mapping[str, Mapping[str, object]]) -> None:
    """Sends one operation per point, as plain JSON: building the client's own types would take a third of the time."""
    changes = [
        {"payload": {field: dict(label)}, "filter": {"must": [{"has_id": [raw_id(point_id)]}]}}
        for point_id, label in labels.items()
    ]
    try:
        body = {"operations": [{"set_payload": change} for change in changes]}
        post(client, "/points/batch?wait=true", index, body, _Done)
    except NotImplementedError:  # the client's in-memory mode
        for change in changes:
            parsed = models.SetPayload.model_validate(change)
            client.set_payload(index, parsed.payload, points=parsed.filter)  # type: ignore[arg-type]
