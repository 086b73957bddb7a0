"""Lens indexes: the value of every chunk of a collection under one lens, made in the background and kept by ingestion.

Labels stand in the payloads of the points. The index itself says which are missing, so that a build that was killed
anywhere is simply run again, and two builds at once do no harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from app.errors import ConflictError, InputError, NotFoundError
from app.ports.catalog import LensesAndJudgements
from app.ports.ledger import Ledger
from app.ports.parts import Embedder, VectorIndex
from app.search.fingerprints import require_same_model
from app.search.lenses import find_lens
from app.search.value_reader import ValueReader
from app.search.value_syntax import parse_values
from app.types.documents import Collection, Job, Point
from app.types.lens_indexes import LensIndex, LensIndexState, LensIndexStatus, state_of

MOST_OF_COLLECTION = 16  # each costs every ingestion a little
_BYTES_OF_LABEL = 76  # without its numbers: docs/decisions/0034-lens-indexes.md
_BYTES_OF_NUMBER = 8 / 3  # float16 in base64

Heartbeat = Callable[[float], None]


class LensIndexes:
    """What interfaces ask: they are built by whatever worker takes their jobs."""

    def __init__(self, catalog: Ledger) -> None:
        self._catalog = catalog

    def build(self, collection: str, lens: str) -> LensIndexStatus:
        """Makes it, or looks through one that is there; it takes over the present values of the lens.

        Raises UnknownCollectionError, UnknownLensError, InputError and ConflictError.
        """
        self._catalog.collection(collection)
        values = _values_of(self._catalog, lens)
        present = self._catalog.lens_indexes(collection)
        if len(present) >= MOST_OF_COLLECTION and all(each.lens != lens for each in present):
            raise ConflictError(
                f"The collection {collection!r} has {len(present)} lens indexes, the most there can be: delete one."
            )
        return self._status(self._catalog.queue_lens_index(collection, lens, values))

    def status(self, collection: str) -> list[LensIndexStatus]:
        """Raises UnknownCollectionError."""
        self._catalog.collection(collection)
        return [self._status(each) for each in self._catalog.lens_indexes(collection)]

    def delete(self, collection: str, lens: str) -> None:
        """Raises UnknownCollectionError and NotFoundError. Its labels are removed in the background."""
        if not self._catalog.delete_lens_index(collection, lens):
            raise NotFoundError(
                f"The collection {collection!r} has no index of the lens {lens!r}. `gircse lenses index list -c "
                f"{collection}` tells which it has."
            )

    def _status(self, found: LensIndex) -> LensIndexStatus:
        collection = self._catalog.collection(found.collection)
        try:
            is_of_lens = tuple(find_lens(self._catalog, found.lens).values) == found.values
        except NotFoundError:
            is_of_lens = False
        state = state_of(found, is_current=is_of_lens and found.is_built_for(collection))
        is_open = state in (LensIndexState.WAITING, LensIndexState.BUILDING)
        job = found.job
        return LensIndexStatus(
            collection=found.collection,
            lens=found.lens,
            values=found.values,
            state=state,
            progress=job.progress if job is not None and is_open else float(state is LensIndexState.READY),
            chunks=found.chunks,
            bytes=round(found.chunks * (_BYTES_OF_LABEL + _BYTES_OF_NUMBER * len(found.values))),
            seconds=found.seconds,
            created_at=found.created_at,
            built_at=found.built_at,
            error=job.error if job is not None and state is not LensIndexState.READY else None,
            job_id=job.id if job is not None else None,
        )


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
        while labelled > before:
            before = labelled
            for ids, vectors in self._index.unlabelled(name, field):
                heartbeat(min(labelled / max(missing, 1), 1.0))
                labels = self._reader.label(vectors, values, collection=collection).payloads()
                self._index.set_labels(name, field, dict(zip(ids, labels, strict=True)))
                labelled += len(ids)
        return labelled

    def _labels(
        self, collection: Collection, indexes: Sequence[LensIndex], points: Sequence[Point]
    ) -> list[dict[str, dict[str, object]]]:
        """Of each point, by field."""
        found: list[dict[str, dict[str, object]]] = [{} for _ in points]
        vectors = np.asarray([point.vector for point in points], dtype=np.float32)
        for each in indexes:
            labels = self._reader.label(vectors, parse_values(each.values), collection=collection).payloads()
            for own, label in zip(found, labels, strict=True):
                own[each.field_in(collection)] = label
        return found


def _is_new(found: LensIndex, known: Sequence[LensIndex]) -> bool:
    return all((found.id, found.edition) != (each.id, each.edition) for each in known)


def _values_of(catalog: LensesAndJudgements, lens: str) -> tuple[str, ...]:
    values = tuple(find_lens(catalog, lens).values)
    if not values:
        raise InputError(f"The lens {lens!r} names no values, so there is nothing to index: save it with some first.")
    return values
