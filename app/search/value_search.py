"""The passages of a search read as values: from the labels of a lens index where there is one, else from vectors."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from app.errors import NotFoundError, UnavailableError
from app.ports.catalog import LensIndexRecords
from app.ports.parts import SearchedIndex
from app.search.label_tables import LabelTables
from app.search.retrieval import NO_LABELS, LabelChoice
from app.search.value_labels import ValueLabels, ValueReadings, read_labels, summarize
from app.search.value_reader import ValueReader
from app.search.value_syntax import parse_values
from app.types.documents import Collection, ScoredPoint
from app.types.lens_indexes import Label
from app.types.search import SearchRequest
from app.types.values import LensValue, ValueScope, ValueSummary, value_names
from embedder.lru import LRUCache

_log = logging.getLogger(__name__)

COUNTS_AGE_S = 10.0  # from then on counts are made anew while those that are there still serve: chunks may be edited
_COUNTS_GONE_S = 60.0  # from then on a search waits for the new ones
_LOOK_S = 1.0  # from then on it is asked again how many chunks there are: another number is another collection
_KEPT_COUNTS = 64
KEPT_READINGS = 50_000  # some 400 bytes each


class _Reading(NamedTuple):
    """Of a chunk."""

    document_id: str
    number: int
    distribution: bytes


class _Known(NamedTuple):
    """What some chunks are, in the order that they were asked for. `document_ids` are "" where a table told."""

    ids: list[str]
    document_ids: list[str]
    labels: ValueLabels


@dataclass(frozen=True, slots=True)
class ReadPassages:
    """`readings` are of `points`, in their order."""

    points: Sequence[ScoredPoint]
    readings: ValueReadings
    summary: ValueSummary


class ValueSearch:
    """Safe to use from several threads.

    What a chunk is among the values is remembered: an id of a chunk stands for its text, and the same text always reads
    the same. Of a lens index all labels are, within `label_tables.MOST_BYTES`, else those of `KEPT_READINGS` chunks.
    Counts of whole collections are kept for seconds: they are the same for all queries, and to count 100,000 chunks
    takes longer than to search them.
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
        self._tables = LabelTables(index)
        self._readings: LRUCache[tuple[str, str, str], _Reading] = LRUCache(KEPT_READINGS)
        self._counts: LRUCache[tuple[object, ...], tuple[float, int, Mapping[int, int]]] = LRUCache(_KEPT_COUNTS)
        self._chunks: LRUCache[str, tuple[float, int]] = LRUCache(_KEPT_COUNTS)
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
            return int((self._read(ids, field, request.values, collection).labels.numbers == own).sum())

        return LabelChoice(field, likely=Label(field, own), count=count)

    def read(
        self,
        points: Sequence[ScoredPoint],
        query: ValueLabels,
        request: SearchRequest,
        collection: Collection,
        *,
        field: str | None,
    ) -> ReadPassages:
        """Of those that are chunks of documents. `field` holds the labels of a lens index; without one passages are
        counted, but for those of documents that are being deleted."""
        values = request.values
        known = self._read([each.id for each in points], field, values, collection)
        if field is None:
            deleted = self._deleted_among(set(known.document_ids))
            rows = [row for row, owner in enumerate(known.document_ids) if owner not in deleted]
            known = _Known([known.ids[row] for row in rows], [], known.labels.at(np.array(rows, dtype=np.int64)))
            counts: Mapping[int, int] = Counter(known.labels.numbers.tolist())
            scope = ValueScope.CANDIDATES
        else:
            counts = self._counted(collection.active_index, field, request.filters)
            scope = ValueScope.COLLECTION
        by_id = {each.id: each for each in points}
        readings = read_labels(known.labels, query, values)
        summary = summarize(counts, query, values, scope=scope)
        return ReadPassages([by_id[each] for each in known.ids], readings, summary)

    def _counted(self, index: str, field: str, filters: Mapping[str, str]) -> Mapping[int, int]:
        key, chunks = (index, field, *sorted(filters.items())), self._chunks_of(index)
        made_at, counted, counts = self._counts.get(key) or (-_COUNTS_GONE_S, -1, {})
        age = self._clock() - made_at
        if counted != chunks or age >= _COUNTS_GONE_S:
            return self._count(key, chunks, filters)
        if age >= COUNTS_AGE_S:
            self._count_beside(key, chunks, filters)
        return counts

    def _chunks_of(self, index: str) -> int:
        """At most a second ago."""
        looked_at, chunks = self._chunks.get(index) or (-_LOOK_S, 0)
        if self._clock() - looked_at >= _LOOK_S:
            looked_at, chunks = self._clock(), self._index.count(index)
            self._chunks.keep({index: (looked_at, chunks)})
        return chunks

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
        for each in self._catalog.lens_indexes(collection.name, with_jobs=False):
            if each.is_built_for(collection) and parse_values(each.values) == tuple(values):
                return each.built_field
        return None

    def _read(
        self, ids: Sequence[str], field: str | None, values: Sequence[LensValue], collection: Collection
    ) -> _Known:
        """Those that are chunks of documents; some may have been deleted since they were remembered."""
        name = collection.active_index
        table = self._tables.get(name, field, len(values)) if field is not None else None
        rows = np.full(len(ids), -1) if table is None else table.rows_of(ids)
        places = np.flatnonzero(rows >= 0)
        owners = dict.fromkeys(ids, "")
        labels = ValueLabels.of_kept([], len(values)) if table is None else table.labels.at(rows[places])
        if len(places) < len(ids):
            asked = [each for each, row in zip(ids, rows.tolist(), strict=True) if row < 0]
            found = self._read_singly(asked, field, values, collection)
            own = [at for at, each in enumerate(ids) if each in found]
            read = ValueLabels.of_kept([found[ids[at]][1:] for at in own], len(values))
            places = np.concatenate([places, np.array(own, dtype=np.int64)])
            order = np.argsort(places)
            places, labels = places[order], labels.and_then(read).at(order)
            owners |= {each: reading.document_id for each, reading in found.items()}
            if table is not None:
                self._tables.note_missed(name, str(field), len(asked))
        known = [ids[at] for at in places.tolist()]
        return _Known(known, [owners[each] for each in known], labels)

    def _read_singly(
        self, ids: Sequence[str], field: str | None, values: Sequence[LensValue], collection: Collection
    ) -> Mapping[str, _Reading]:
        name, column = collection.active_index, field or repr(values)
        found = {each: kept for each in ids if (kept := self._readings.get((name, column, each))) is not None}
        new = [each for each in ids if each not in found]
        fresh = self._labelled(name, field, new, len(values)) if field and new else {}
        if rest := [each for each in new if each not in fresh]:
            own = self._index.owned_vectors(name, rest)
            vectors = own.found.vectors.reshape(-1, collection.dimension)
            labels = self._reader.label(vectors, own.found.texts, values, collection=collection).kept()
            for point_id, owner, (number, row) in zip(own.ids, own.document_ids, labels, strict=True):
                fresh[point_id] = _Reading(owner, number, row)
        self._readings.keep({(name, column, each): reading for each, reading in fresh.items()})
        return found | fresh

    def _labelled(self, name: str, field: str, ids: Sequence[str], value_count: int) -> dict[str, _Reading]:
        own = self._index.owned_labels(name, field, ids)
        rows = [row for row, label in enumerate(own.found) if label is not None]
        kept = ValueLabels.of_payloads([own.found[row] for row in rows], value_count).kept()
        return {own.ids[row]: _Reading(own.document_ids[row], *label) for row, label in zip(rows, kept, strict=True)}
