"""Builds and maintains lens indexes: the value of every chunk of a collection under a lens.

Values are stored as labels in the payloads of points. The engine finds points without a label, so an interrupted build
is simply run again, and concurrent builds do no harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from app.errors import EngineFaultError
from app.ports.parts import Embedder, VectorIndex
from app.search.fingerprints import require_same_model
from app.search.value_reader import ValueReader
from app.search.value_syntax import parse_values
from app.types.documents import Collection, Job, Point
from app.types.lens_indexes import LensIndex

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

_MOST_ROUNDS = 3  # rounds without progress after which the engine is considered faulty

Heartbeat = Callable[[float], None]
T = TypeVar("T")


class LensIndexer:
    """Labels points for the worker. Implements the port `LensIndexing`. Thread-safe."""

    def __init__(self, *, catalog: SqlCatalog, index: VectorIndex, embedder: Embedder) -> None:
        self._catalog = catalog
        self._index = index
        self._embedder = embedder
        self._reader = ValueReader(embedder)

    def upsert(self, collection: Collection, points: Sequence[Point]) -> None:
        known = self._catalog.lens_indexes.of_collection(collection.name)
        labels = self._labels(collection, known, points)
        self._index.upsert(
            collection.active_index,
            [replace(point, payload={**point.payload, **own}) for point, own in zip(points, labels, strict=True)],
        )
        # The build of an index that was queued in the meantime may have missed these points.
        new = [each for each in self._catalog.lens_indexes.of_collection(collection.name) if _is_new(each, known)]
        labels = self._labels(collection, new, points)
        for each in new:
            field = each.field_in(collection)
            found = {point.id: own[field] for point, own in zip(points, labels, strict=True)}
            self._index.set_labels(collection.active_index, field, found)

    def build(self, job: Job, *, heartbeat: Heartbeat) -> int:
        started, labelled = time.monotonic(), 0
        while True:
            wanted = self._catalog.lens_indexes.get(job.document_id)
            collection = self._catalog.collection(wanted.collection)
            require_same_model(collection, self._embedder)
            name, field = collection.active_index, wanted.field_in(collection)
            self._catalog.lens_indexes.begin(job, index=name, field=field)
            self._index.add_labels(name, field)
            labelled += self._label_missing(collection, wanted, heartbeat)
            chunks = sum(self._index.label_counts(name, field).values())
            # A repeated build of an existing index keeps the original build time.
            seconds = wanted.seconds if wanted.is_built_for(collection) else time.monotonic() - started
            built = replace(wanted, built_index=name, built_field=field, chunks=chunks, seconds=seconds)
            if self._catalog.lens_indexes.complete(job, built):
                return labelled

    def _label_missing(self, collection: Collection, wanted: LensIndex, heartbeat: Heartbeat) -> int:
        """Label all points without a label; returns their number. `upsert` labels points that are written meanwhile."""
        name, field, values = collection.active_index, wanted.field_in(collection), parse_values(wanted.values)
        missing, labelled, before = self._index.count_unlabelled(name, field), 0, -1
        rounds = 0
        with ThreadPoolExecutor(2, thread_name_prefix="labels") as others:
            while labelled > before:
                if (rounds := rounds + 1) > _MOST_ROUNDS and self._index.count_unlabelled(name, field) >= missing:
                    raise EngineFaultError(
                        f"The vector index {name!r} does not store labels {field!r}: {missing} points have none after "
                        f"{_MOST_ROUNDS} rounds. The build is retried; if this continues, restart Qdrant."
                    )
                before, written = labelled, others.submit(lambda: None)
                # Pipeline: reading, labelling and writing of three pages run in parallel.
                for ids, page in read_ahead(self._index.unlabelled(name, field), others):
                    labels = self._reader.label(page.vectors, page.texts, values, collection=collection).payloads()
                    written.result()
                    heartbeat(min(labelled / max(missing, 1), 1.0))
                    found = dict(zip(ids, labels, strict=True))
                    written = others.submit(self._index.set_labels, name, field, found)
                    labelled += len(ids)
                written.result()
        return labelled

    def _labels(
        self, collection: Collection, indexes: Sequence[LensIndex], points: Sequence[Point]
    ) -> list[dict[str, dict[str, object]]]:
        """Labels by field, for each point."""
        found: list[dict[str, dict[str, object]]] = [{} for _ in points]
        vectors = np.asarray([point.vector for point in points], dtype=np.float32)
        texts = [str(point.payload.get("page_content", "")) for point in points]
        for each in indexes:
            labels = self._reader.label(vectors, texts, parse_values(each.values), collection=collection).payloads()
            for own, label in zip(found, labels, strict=True):
                own[each.field_in(collection)] = label
        return found


def read_ahead(pages: Iterable[T], executor: Executor) -> Iterator[T]:
    """Yield the pages, reading the next page in the executor while the caller uses the present one."""
    iterator = iter(pages)
    coming = executor.submit(next, iterator, None)
    while (page := coming.result()) is not None:
        coming = executor.submit(next, iterator, None)
        yield page


def queue_outdated(catalog: SqlCatalog) -> int:
    """Queue rebuilds of lens indexes whose labels an earlier release computed in another way.

    Returns the number of collections with such indexes.

    Other reasons for a rebuild, such as new values or a new index of the collection, queue it where they occur.
    """
    outdated = [
        collection
        for collection in catalog.collections()
        if any(
            each.built_field and not each.is_built_for(collection)
            for each in catalog.lens_indexes.of_collection(collection.name)
        )
    ]
    for collection in outdated:
        catalog.lens_indexes.queue_all(collection.name)
    return len(outdated)


def _is_new(found: LensIndex, known: Sequence[LensIndex]) -> bool:
    return all((found.id, found.edition) != (each.id, each.edition) for each in known)
