"""The passages of a search read as values: from the labels of a lens index where there is one, else from vectors."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.errors import NotFoundError, UnavailableError
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

_log = logging.getLogger(__name__)

COUNTS_AGE_S = 10.0  # from then on counts are made anew while those that are there still serve: chunks may be edited
_COUNTS_GONE_S = 60.0  # from then on a search waits for the new ones
_KEPT_COUNTS = 64
KEPT_READINGS = 50_000  # some 400 bytes each


class _Reading(NamedTuple):
    """Of a chunk."""

    document_id: str
    number: int
    distribution: bytes


@dataclass(frozen=True, slots=True)
class ReadPassages:
    """`readings` are of `points`, in their order."""

    points: Sequence[RankedPoint]
    readings: tuple[ValueReading, ...]
    summary: ValueSummary


class ValueSearch:
    """Safe to use from several threads.

    What a chunk is among the values is remembered of `KEPT_READINGS` chunks: an id of a chunk stands for its text, and
    the same text always reads the same. Counts of whole collections are kept for seconds: they are the same for all
    queries, and to count 100,000 chunks takes longer than to search them.
    """

    def __init__(
        self,
        catalog: LensIndexRecords,
        index: SearchedIndex,
        reader: ValueReader,
        *,
        deleted_among: Callable[[Iterable[str]], set[str]] = lambda _: set(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._reader = reader
        self._deleted_among = deleted_among
        self._clock = clock
        self._readings: LRUCache[tuple[str, str, str], _Reading] = LRUCache(KEPT_READINGS)
        self._counts: LRUCache[tuple[object, ...], tuple[float, int, Mapping[int, int]]] = LRUCache(_KEPT_COUNTS)
        self._counting: set[tuple[object, ...]] = set()
        self._lock = threading.Lock()

    def choose(self, request: SearchRequest, collection: Collection, query: ValueLabels | None) -> LabelChoice:
        """By which labels the index is asked; by none where no lens index has the values of the request."""
        field = self._field(request.values, collection) if query is not None else None
        if field is None or query is None:
            return NO_LABELS
        if request.value is not None:
            return LabelChoice(field, only=Label(field, value_names(request.values).index(request.value)))
        own = int(query.numbers[0])
        if own == len(request.values):
            return LabelChoice(field)

        def count(ids: Sequence[str]) -> int:
            known = self._read(ids, field, request.values, collection)
            return sum(each.number == own for each in known.values())

        return LabelChoice(field, likely=Label(field, own), count=count)

    def read(
        self,
        points: Sequence[RankedPoint],
        query: ValueLabels,
        request: SearchRequest,
        collection: Collection,
        *,
        field: str | None,
    ) -> ReadPassages:
        """Of those that are chunks of documents, and of none that is being deleted. `field` holds the labels of a lens
        index."""
        values = request.values
        known = self._read([each.point.id for each in points], field, values, collection)
        deleted = self._deleted_among({each.document_id for each in known.values()})
        present = [each for each in points if each.point.id in known]
        present = [each for each in present if known[each.point.id].document_id not in deleted]
        kept = [known[each.point.id] for each in present]
        labels = ValueLabels.of_kept([(each.number, each.distribution) for each in kept], len(values))
        if field is None:
            counts: Mapping[int, int] = Counter(each.number for each in kept)
            scope = ValueScope.CANDIDATES
        else:
            counts = self._counted(collection.active_index, field, request.filters)
            scope = ValueScope.COLLECTION
        return ReadPassages(present, read_labels(labels, query, values), summarize(counts, query, values, scope=scope))

    def _counted(self, index: str, field: str, filters: Mapping[str, str]) -> Mapping[int, int]:
        key, chunks = (index, field, *sorted(filters.items())), self._index.count(index)
        made_at, counted, counts = self._counts.get(key) or (-_COUNTS_GONE_S, -1, {})
        age = self._clock() - made_at
        if counted != chunks or age >= _COUNTS_GONE_S:
            return self._count(key, chunks, filters)
        if age >= COUNTS_AGE_S:
            self._count_beside(key, chunks, filters)
        return counts

    def _count(self, key: tuple[object, ...], chunks: int, filters: Mapping[str, str]) -> Mapping[int, int]:
        found = self._index.label_counts(str(key[0]), str(key[1]), filters=filters or None)
        self._counts.keep({key: (self._clock(), chunks, found)})
        return found

    def _count_beside(self, key: tuple[object, ...], chunks: int, filters: Mapping[str, str]) -> None:
        """Once at a time."""
        with self._lock:
            if key in self._counting:
                return
            self._counting.add(key)

        def count() -> None:
            try:
                self._count(key, chunks, filters)
            except (NotFoundError, UnavailableError) as error:
                _log.info("Counts by value stay as they were: %s", error)
            finally:
                with self._lock:
                    self._counting.discard(key)

        threading.Thread(target=count, name="value counts", daemon=True).start()

    def _field(self, values: Sequence[LensValue], collection: Collection) -> str | None:
        """Where every chunk of the collection has its value."""
        for each in self._catalog.lens_indexes(collection.name):
            if each.is_built_for(collection) and parse_values(each.values) == tuple(values):
                return each.built_field
        return None

    def _read(
        self, ids: Sequence[str], field: str | None, values: Sequence[LensValue], collection: Collection
    ) -> Mapping[str, _Reading]:
        """Those that are chunks of documents; some may have been deleted since they were remembered."""
        name, column = collection.active_index, field or repr(values)
        found = {each: kept for each in ids if (kept := self._readings.get((name, column, each))) is not None}
        new = [each for each in ids if each not in found]
        fresh = self._labelled(name, field, new, len(values)) if field and new else {}
        if rest := [each for each in new if each not in fresh]:
            own = self._index.owned_vectors(name, rest)
            vectors = own.found.reshape(-1, collection.dimension)
            payloads = self._index.payloads(name, own.ids)
            texts = [str(payloads.get(each, {}).get("page_content", "")) for each in own.ids]
            labels = self._reader.label(vectors, texts, values, collection=collection).kept()
            for point_id, owner, (number, row) in zip(own.ids, own.document_ids, labels, strict=True):
                fresh[point_id] = _Reading(owner, number, row)
        self._readings.keep({(name, column, each): reading for each, reading in fresh.items()})
        return found | fresh

    def _labelled(self, name: str, field: str, ids: Sequence[str], value_count: int) -> dict[str, _Reading]:
        own = self._index.owned_labels(name, field, ids)
        rows = [row for row, label in enumerate(own.found) if label is not None]
        kept = ValueLabels.of_payloads([own.found[row] for row in rows], value_count).kept()
        return {own.ids[row]: _Reading(own.document_ids[row], *label) for row, label in zip(rows, kept, strict=True)}
