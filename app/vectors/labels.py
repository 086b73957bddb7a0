"""Labels of points in Qdrant: in their payload, with an index of the numbers that filters and counts go by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
from qdrant_client import QdrantClient, models

from app.types.lens_indexes import UNLABELLED_PAGE
from app.vectors.dense_vectors import retrieve_vectors, scroll_vectors
from app.vectors.filters import DOCUMENT_ID_FIELD, label_path, metadata_filter, of_ids

T = TypeVar("T")

_IDS_PER_UPDATE = 5_000
_MOST_LABELS = 1_000


class LabelledPoints(ABC):
    """The part `Labels` of the port `VectorIndex`."""

    _packs_vectors: bool  # whether the engine does, as the embedded one

    @abstractmethod
    def _call(self, index: str, operation: Callable[[QdrantClient], T]) -> T: ...

    def add_labels(self, index: str, field: str) -> None:
        create = partial(QdrantClient.create_payload_index, collection_name=index, field_name=label_path(field))
        self._call(index, partial(create, field_schema=models.PayloadSchemaType.INTEGER, wait=True))

    def set_labels(self, index: str, field: str, labels: Mapping[str, Mapping[str, object]]) -> None:
        set_one = models.SetPayloadOperation.model_construct
        operations: list[models.UpdateOperation] = [
            set_one(
                set_payload=models.SetPayload.model_construct(payload={field: dict(label)}, filter=of_ids([point_id]))
            )
            for point_id, label in labels.items()
        ]
        if operations:
            self._call(index, lambda client: client.batch_update_points(index, operations, wait=True))

    def drop_labels(self, index: str, field: str) -> None:
        has_label = models.Filter(must_not=[_is_empty(label_path(field))])
        scroll = partial(QdrantClient.scroll, collection_name=index, scroll_filter=has_label, limit=_IDS_PER_UPDATE)
        while records := self._call(index, partial(scroll, with_payload=False))[0]:
            change = models.DeletePayload(keys=[field], filter=of_ids([str(record.id) for record in records]))
            operation = models.DeletePayloadOperation(delete_payload=change)
            update = partial(QdrantClient.batch_update_points, collection_name=index, wait=True)
            self._call(index, partial(update, update_operations=[operation]))
        self._call(index, lambda client: client.delete_payload_index(index, label_path(field), wait=True))

    def unlabelled(self, index: str, field: str) -> Iterator[tuple[list[str], np.ndarray]]:
        condition = models.Filter(must=[_is_empty(field)], must_not=[_is_empty(DOCUMENT_ID_FIELD)])
        scroll = partial(
            scroll_vectors, index=index, condition=condition, limit=UNLABELLED_PAGE, is_packed=self._packs_vectors
        )
        offset: int | str | None = None
        while True:
            page = self._call(index, partial(scroll, offset=offset))
            if page.ids:
                yield page.ids, page.vectors
            offset = page.following
            if offset is None:
                return

    def vectors(self, index: str, ids: Sequence[str]) -> tuple[list[str], np.ndarray]:
        fetch = partial(retrieve_vectors, index=index, ids=ids, is_packed=self._packs_vectors)
        page = self._call(index, fetch)
        return page.ids, page.vectors

    def count_unlabelled(self, index: str, field: str) -> int:
        condition = models.Filter(must=[_is_empty(label_path(field))], must_not=[_is_empty(DOCUMENT_ID_FIELD)])
        return self._call(index, lambda client: client.count(index, count_filter=condition, exact=True).count)

    def label_counts(self, index: str, field: str, *, filters: Mapping[str, str] | None = None) -> dict[int, int]:
        facet = partial(
            QdrantClient.facet, collection_name=index, key=label_path(field), limit=_MOST_LABELS, exact=True
        )
        found = self._call(index, partial(facet, facet_filter=metadata_filter(filters)))
        return {int(hit.value): hit.count for hit in found.hits if hit.count}  # some engines tell of former ones


def _is_empty(field: str) -> models.IsEmptyCondition:
    return models.IsEmptyCondition(is_empty=models.PayloadField(key=field))
