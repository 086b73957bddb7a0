"""Builds lens indexes: gives every chunk of a collection its value under a lens, and keeps it so.

Labels stand in the payloads of the points. The index itself says which are missing, so that a build that was killed
anywhere is simply run again, and two builds at once do no harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import numpy as np

from app.errors import EngineFaultError
from app.ports.ledger import Ledger
from app.ports.parts import Embedder, VectorIndex
from app.search.fingerprints import require_same_model
from app.search.value_reader import ValueReader
from app.search.value_syntax import parse_values
from app.types.documents import Collection, Job, Point
from app.types.lens_indexes import LensIndex

_MOST_ROUNDS = 3  # that leave as many points without a label as there were

Heartbeat = Callable[[float], None]
T = TypeVar("T")


class LensIndexer:
    """The worker's part: implements the port `LensIndexing`. Safe to use from several threads."""

    def __init__(self, *, catalog: Ledger, index: VectorIndex, embedder: Embedder) -> None:
        self._catalog = catalog
        self._index = index
        self._embedder = embedder
        self._reader = ValueReader(embedder)

    def upsert(self, collection: Collection, points: Sequence[Point]) -> None:
        known = self._catalog.lens_indexes(collection.name)
        labels = self._labels(collection, known, points)
        self._index.upsert(
            collection.active_index,
            [replace(point, payload={**point.payload, **own}) for point, own in zip(points, labels, strict=True)],
        )
        # One that was queued since may have been looked through before these points were there.
        new = [each for each in self._catalog.lens_indexes(collection.name) if _is_new(each, known)]
        labels = self._labels(collection, new, points)
        for each in new:
            field = each.field_in(collection)
            found = {point.id: own[field] for point, own in zip(points, labels, strict=True)}
            self._index.set_labels(collection.active_index, field, found)

    def build(self, job: Job, *, heartbeat: Heartbeat) -> int:
        started, labelled = time.monotonic(), 0
        while True:
            wanted = self._catalog.lens_index(job.document_id)
            collection = self._catalog.collection(wanted.collection)
            require_same_model(collection, self._embedder)
            name, field = collection.active_index, wanted.field_in(collection)
            self._catalog.begin_lens_index(job, index=name, field=field)
            self._index.add_labels(name, field)
            labelled += self._label_missing(collection, wanted, heartbeat)
            chunks = sum(self._index.label_counts(name, field).values())
            # Looked through again, it cost what it cost when it was built.
            seconds = wanted.seconds if wanted.is_built_for(collection) else time.monotonic() - started
            built = replace(wanted, built_index=name, built_field=field, chunks=chunks, seconds=seconds)
            if self._catalog.complete_lens_index(job, built):
                return labelled

    def _label_missing(self, collection: Collection, wanted: LensIndex, heartbeat: Heartbeat) -> int:
        """What is written meanwhile gets its labels by who writes it."""
        name, field, values = collection.active_index, wanted.field_in(collection), parse_values(wanted.values)
        missing, labelled, before = self._index.count_unlabelled(name, field), 0, -1
        rounds = 0
        with ThreadPoolExecutor(2, thread_name_prefix="labels") as others:
            while labelled > before:
                if (rounds := rounds + 1) > _MOST_ROUNDS and self._index.count_unlabelled(name, field) >= missing:
                    raise EngineFaultError(
                        f"The vector index {name!r} does not keep labels {field!r}: {missing} points are without one "
                        f"after {_MOST_ROUNDS} rounds. The build is tried again; if it goes on, restart Qdrant."
                    )
                before, written = labelled, others.submit(lambda: None)
                # One page is read, one labelled and one written at a time.
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
        """Of each point, by field."""
        found: list[dict[str, dict[str, object]]] = [{} for _ in points]
        vectors = np.asarray([point.vector for point in points], dtype=np.float32)
        texts = [str(point.payload.get("page_content", "")) for point in points]
        for each in indexes:
            labels = self._reader.label(vectors, texts, parse_values(each.values), collection=collection).payloads()
            for own, label in zip(found, labels, strict=True):
                own[each.field_in(collection)] = label
        return found


def read_ahead(pages: Iterable[T], executor: Executor) -> Iterator[T]:
    """The next one is read while one is used."""
    iterator = iter(pages)
    coming = executor.submit(next, iterator, None)
    while (page := coming.result()) is not None:
        coming = executor.submit(next, iterator, None)
        yield page


def queue_outdated(catalog: Ledger) -> int:
    """Indexes that an earlier release built, which read values in another way, are built anew; in how many collections.

    What else makes one outdated, other values or another index of the collection, queues it itself.
    """
    outdated = [
        collection
        for collection in catalog.collections()
        if any(each.built_field and not each.is_built_for(collection) for each in catalog.lens_indexes(collection.name))
    ]
    for collection in outdated:
        catalog.queue_lens_indexes(collection.name)
    return len(outdated)


def _is_new(found: LensIndex, known: Sequence[LensIndex]) -> bool:
    return all((found.id, found.edition) != (each.id, each.edition) for each in known)
