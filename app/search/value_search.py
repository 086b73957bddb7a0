"""The passages of a search read as values: from the labels of a lens index where there is one, else from vectors."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.ports.catalog import LensIndexRecords
from app.ports.parts import SearchedIndex
from app.runtime.lru import LRUCache
from app.search.fusion import RankedPoint
from app.search.retrieval import NO_LABELS, LabelChoice
from app.search.value_labels import ValueLabels, read_labels, summarize
from app.search.value_reader import ValueReader
from app.search.value_syntax import parse_values
from app.types.documents import Collection
from app.types.lens_indexes import Label
from app.types.search import SearchRequest
from app.types.values import LensValue, ValueReading, ValueScope, ValueSummary, value_names

COUNTS_AGE_S = 10.0  # chunks may be edited while their number stays
_KEPT = 64


@dataclass(frozen=True, slots=True)
class ReadPassages:
    """`readings` are of `points`, in their order."""

    points: Sequence[RankedPoint]
    readings: tuple[ValueReading, ...]
    summary: ValueSummary


class ValueSearch:
    """Safe to use from several threads. Counts of whole collections are kept for seconds: they are the same for all
    queries, and to count 100,000 chunks takes longer than to search them."""

    def __init__(
        self,
        catalog: LensIndexRecords,
        index: SearchedIndex,
        reader: ValueReader,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._reader = reader
        self._clock = clock
        self._counts: LRUCache[tuple[object, ...], tuple[float, Mapping[int, int]]] = LRUCache(_KEPT)

    def choose(self, request: SearchRequest, collection: Collection, query: ValueLabels | None) -> LabelChoice:
        """By which labels the index is asked; by none where no lens index has the values of the request."""
        field = self._field(request.values, collection) if query is not None else None
        if field is None or query is None:
            return NO_LABELS
        if request.value is not None:
            return LabelChoice(field, only=Label(field, value_names(request.values).index(request.value)))
        own = int(query.numbers[0])
        return LabelChoice(field, likely=Label(field, own) if own < len(request.values) else None)

    def read(
        self,
        points: Sequence[RankedPoint],
        query: ValueLabels,
        request: SearchRequest,
        collection: Collection,
        *,
        field: str | None,
    ) -> ReadPassages:
        """`field` holds the labels of a lens index."""
        values = request.values
        present, labels = self._labels(points, field, values, collection)
        readings = read_labels(labels, query, values)
        if field is None:
            counts: Mapping[int, int] = Counter(labels.numbers.tolist())
            scope = ValueScope.CANDIDATES
        else:
            counts = self._counted(collection.active_index, field, request.filters)
            scope = ValueScope.COLLECTION
        return ReadPassages(present, readings, summarize(counts, query, values, scope=scope))

    def _counted(self, index: str, field: str, filters: Mapping[str, str]) -> Mapping[int, int]:
        key = index, field, self._index.count(index), *sorted(filters.items())
        kept = self._counts.get(key)
        if kept is not None and self._clock() - kept[0] < COUNTS_AGE_S:
            return kept[1]
        found = self._index.label_counts(index, field, filters=filters or None)
        self._counts.keep({key: (self._clock(), found)})
        return found

    def _field(self, values: Sequence[LensValue], collection: Collection) -> str | None:
        """Where every chunk of the collection has its value."""
        for each in self._catalog.lens_indexes(collection.name):
            if each.is_built_for(collection) and parse_values(each.values) == tuple(values):
                return each.built_field
        return None

    def _labels(
        self, points: Sequence[RankedPoint], field: str | None, values: Sequence[LensValue], collection: Collection
    ) -> tuple[Sequence[RankedPoint], ValueLabels]:
        """With the points that they are of, in their order; some without a label may have been deleted since."""
        labelled = [each for each in points if field is not None and field in each.point.payload]
        rest = [each.point.id for each in points if field is None or field not in each.point.payload]
        kept = ValueLabels.of_payloads([each.point.payload[str(field)] for each in labelled], len(values))
        ids, parts = [each.point.id for each in labelled], [kept]
        if rest:
            found, vectors = self._index.vectors(collection.active_index, rest)
            ids += found
            texts = {each.point.id: str(each.point.payload.get("page_content", "")) for each in points}
            read = vectors.reshape(-1, collection.dimension)
            parts.append(self._reader.label(read, [texts[each] for each in found], values, collection=collection))
        known = {point_id: row for row, point_id in enumerate(ids)}
        present = [each for each in points if each.point.id in known]
        return present, ValueLabels.joined(parts).picked([known[each.point.id] for each in present])
