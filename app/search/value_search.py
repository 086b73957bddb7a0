"""Classifies the passages of a search by values: from labels of a lens index if there is one, else from vectors."""

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

COUNTS_AGE_S = 10.0  # older counts still serve, and are renewed in the background: chunks may have been edited
_COUNTS_GONE_S = 60.0  # older counts do not serve: a search waits for new ones
_LOOK_S = 1.0  # time for which the number of chunks is cached; a new number invalidates the counts
_KEPT_COUNTS = 64
KEPT_READINGS = 50_000  # some 400 bytes each


class _Reading(NamedTuple):
    """The cached label of a chunk."""

    document_id: str
    number: int
    distribution: bytes


class _Known(NamedTuple):
    """Labels of chunks, in the order of the request. `document_ids` are "" for chunks from a label table."""

    ids: list[str]
    document_ids: list[str]
    labels: ValueLabels


@dataclass(frozen=True, slots=True)
class ReadPassages:
    """Points with their values; `readings` are in the order of `points`."""

    points: Sequence[ScoredPoint]
    readings: ValueReadings
    summary: ValueSummary


class ValueSearch:
    """Classifies and counts the passages of a search by its values. Thread-safe.

    Caches labels of chunks, which never change: a chunk's id is derived from its text, and the same text always gets
    the same label. All labels of a lens index are cached up to `label_tables.MOST_BYTES`, else those of `KEPT_READINGS`
    chunks. Counts per value of a whole collection are cached for seconds: they are the same for all queries, and to
    count 100,000 chunks takes longer than to search them.
    """

    def __init__(
        self,
        lens_indexes: LensIndexRecords,
        index: SearchedIndex,
        reader: ValueReader,
        *,
        deleted_among: Callable[[Iterable[str]], set[str]] = lambda _: set(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lens_indexes = lens_indexes
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
        """Chooses the labels to search by; NO_LABELS if no lens index was built for the request's values."""
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

        return LabelChoice(field, predicted=Label(field, own), count=count)

    def read(
        self,
        points: Sequence[ScoredPoint],
        query: ValueLabels,
        request: SearchRequest,
        collection: Collection,
        *,
        field: str | None,
    ) -> ReadPassages:
        """Classifies the points that are chunks of documents.

        field: payload field of a lens index's labels. With it, the summary counts the whole collection; with None, it
        counts these points, without those of deleted documents.
        """
        values = request.values
        known = self._read([point.id for point in points], field, values, collection)
        if field is None:
            deleted = self._deleted_among(set(known.document_ids))
            rows = [row for row, owner in enumerate(known.document_ids) if owner not in deleted]
            known = _Known([known.ids[row] for row in rows], [], known.labels.at(np.array(rows, dtype=np.int64)))
            counts: Mapping[int, int] = Counter(known.labels.numbers.tolist())
            scope = ValueScope.CANDIDATES
        else:
            counts = self._counted(collection.active_index, field, request.filters)
            scope = ValueScope.COLLECTION
        by_id = {point.id: point for point in points}
        readings = read_labels(known.labels, query, values)
        summary = summarize(counts, query, values, scope=scope)
        return ReadPassages([by_id[point_id] for point_id in known.ids], readings, summary)

    def _counted(self, index: str, field: str, filters: Mapping[str, str]) -> Mapping[int, int]:
        key, chunks = (index, field, *sorted(filters.items())), self._chunks_of(index)
        made_at, counted, counts = self._counts.get(key) or (-_COUNTS_GONE_S, -1, {})
        age = self._clock() - made_at
        if counted != chunks or age >= _COUNTS_GONE_S:
            return self._count(key, chunks, filters)
        if age >= COUNTS_AGE_S:
            self._count_in_background(key, chunks, filters)
        return counts

    def _chunks_of(self, index: str) -> int:
        """Number of chunks in the index, at most `_LOOK_S` old."""
        looked_at, chunks = self._chunks.get(index) or (-_LOOK_S, 0)
        if self._clock() - looked_at >= _LOOK_S:
            looked_at, chunks = self._clock(), self._index.count(index)
            self._chunks.keep({index: (looked_at, chunks)})
        return chunks

    def _count(self, key: tuple[object, ...], chunks: int, filters: Mapping[str, str]) -> Mapping[int, int]:
        counts = self._index.label_counts(str(key[0]), str(key[1]), filters=filters or None)
        self._counts.keep({key: (self._clock(), chunks, counts)})
        return counts

    def _count_in_background(self, key: tuple[object, ...], chunks: int, filters: Mapping[str, str]) -> None:
        """Does nothing if this count is running already."""
        with self._lock:
            if key in self._counting:
                return
            self._counting.add(key)

        def count() -> None:
            try:
                self._count(key, chunks, filters)
            except (NotFoundError, UnavailableError) as error:
                _log.info("Counts per value were not renewed: %s", error)
            finally:
                with self._lock:
                    self._counting.discard(key)

        threading.Thread(target=count, name="value counts", daemon=True).start()

    def _field(self, values: Sequence[LensValue], collection: Collection) -> str | None:
        """Payload field with the labels of a complete lens index for these values; None if there is none."""
        for lens_index in self._lens_indexes.of_collection(collection.name, with_jobs=False):
            if lens_index.is_built_for(collection) and parse_values(lens_index.values) == tuple(values):
                return lens_index.built_field
        return None

    def _read(
        self, ids: Sequence[str], field: str | None, values: Sequence[LensValue], collection: Collection
    ) -> _Known:
        """Labels of those ids that are chunks of documents. A cached chunk may have been deleted since."""
        name = collection.active_index
        table = self._tables.get(name, field, len(values)) if field is not None else None
        rows = np.full(len(ids), -1) if table is None else table.rows_of(ids)
        positions = np.flatnonzero(rows >= 0)  # in `ids`, of the chunks with a label
        owners = dict.fromkeys(ids, "")
        labels = ValueLabels.of_kept([], len(values)) if table is None else table.labels.at(rows[positions])
        if len(positions) < len(ids):
            missed = [chunk for chunk, row in zip(ids, rows.tolist(), strict=True) if row < 0]
            readings = self._read_singly(missed, field, values, collection)
            at_readings = [at for at, chunk in enumerate(ids) if chunk in readings]
            read = ValueLabels.of_kept([readings[ids[at]][1:] for at in at_readings], len(values))
            positions = np.concatenate([positions, np.array(at_readings, dtype=np.int64)])
            order = np.argsort(positions)
            positions, labels = positions[order], labels.and_then(read).at(order)
            owners |= {chunk: reading.document_id for chunk, reading in readings.items()}
            if table is not None:
                self._tables.note_missed(name, str(field), len(missed))
        known = [ids[at] for at in positions.tolist()]
        return _Known(known, [owners[chunk] for chunk in known], labels)

    def _read_singly(
        self, ids: Sequence[str], field: str | None, values: Sequence[LensValue], collection: Collection
    ) -> Mapping[str, _Reading]:
        """Labels by chunk id: from the cache, else from the lens index, else from the stored vectors."""
        name, column = collection.active_index, field or repr(values)
        cached = {chunk: kept for chunk in ids if (kept := self._readings.get((name, column, chunk))) is not None}
        new = [chunk for chunk in ids if chunk not in cached]
        fresh = self._labelled(name, field, new, len(values)) if field and new else {}
        if rest := [chunk for chunk in new if chunk not in fresh]:
            own = self._index.owned_vectors(name, rest)
            vectors = own.found.vectors.reshape(-1, collection.dimension)
            labels = self._reader.label(vectors, own.found.texts, values, collection=collection).kept()
            for point_id, owner, (number, row) in zip(own.ids, own.document_ids, labels, strict=True):
                fresh[point_id] = _Reading(owner, number, row)
        self._readings.keep({(name, column, chunk): reading for chunk, reading in fresh.items()})
        return cached | fresh

    def _labelled(self, name: str, field: str, ids: Sequence[str], value_count: int) -> dict[str, _Reading]:
        own = self._index.owned_labels(name, field, ids)
        rows = [row for row, label in enumerate(own.found) if label is not None]
        kept = ValueLabels.of_payloads([own.found[row] for row in rows], value_count).kept()
        return {own.ids[row]: _Reading(own.document_ids[row], *label) for row, label in zip(rows, kept, strict=True)}
