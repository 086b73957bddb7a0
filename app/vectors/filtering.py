"""Metadata filters in Qdrant: creates their payload indexes, and decides which of these a filter uses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from qdrant_client import QdrantClient, models

from app.types.lens_indexes import Label
from app.vectors import tuning
from app.vectors.filters import NUMBERS_FIELD, filtered_keys, metadata_filter, metadata_path, number_path, numbers_of

T = TypeVar("T")

_MOST_FILTERED = 16


class FilteredPoints(ABC):
    """Filters points by metadata. Implements a part of `VectorIndex`."""

    _searched: tuning.SearchedIndexes

    @abstractmethod
    def _call(self, index: str, operation: Callable[[QdrantClient], T]) -> T: ...

    @abstractmethod
    def _info(self, index: str) -> models.CollectionInfo: ...

    @abstractmethod
    def _pages(self, index: str, **options: object) -> Iterator[list[models.Record]]: ...

    @abstractmethod
    def set_payloads(self, index: str, payloads: Mapping[str, Mapping[str, object]]) -> None: ...

    def _condition(
        self, index: str, filters: Mapping[str, str] | None, label: Label | None = None
    ) -> models.Filter | None:
        return metadata_filter(filters, label, number_paths=self._searched.of(index).number_paths if filters else ())

    def _index_metadata(self, index: str) -> None:
        """Creates payload indexes for the most frequent metadata keys of a large index.

        Point ids are hashes, so the first page is a random sample of the metadata. Does not wait for the result: the
        embedded engine builds the indexes during optimisation, and answers searches meanwhile.
        """
        info = self._info(index)
        if not tuning.needs_payload_indexes(info):
            return
        sample = next(self._pages(index, with_payload=["metadata"]))
        filtered, numbers = filtered_keys(record.payload or {} for record in sample)
        filtered = filtered[:_MOST_FILTERED]
        fields = {metadata_path(key): models.PayloadSchemaType.KEYWORD for key in filtered}
        fields |= {number_path(key): models.PayloadSchemaType.FLOAT for key in numbers if key in filtered}
        missing = {field: kind for field, kind in fields.items() if field not in info.payload_schema}
        if models.PayloadSchemaType.FLOAT in missing.values():
            self._add_numbers(index)
        for field, kind in missing.items():
            create = partial(QdrantClient.create_payload_index, collection_name=index, field_name=field)
            self._call(index, partial(create, field_schema=kind, wait=False))

    def _add_numbers(self, index: str) -> None:
        """Adds NUMBERS_FIELD to points of old releases, which did not write it. Needed since a number filter that uses
        the payload index looks at this field only."""
        has_none = models.Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key=NUMBERS_FIELD))])
        for page in self._pages(index, scroll_filter=has_none, with_payload=["metadata"]):
            metadata = {str(record.id): (record.payload or {}).get("metadata") for record in page}
            with_numbers = {point_id: own for point_id, own in metadata.items() if numbers_of(own)}
            self.set_payloads(index, {point_id: {"metadata": own} for point_id, own in with_numbers.items()})
