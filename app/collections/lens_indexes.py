"""Lens indexes of a collection for the interfaces: queue, status with progress and cost, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import ConflictError, InputError, NotFoundError
from app.ports.catalog import LensesAndJudgements
from app.search.lenses import find_lens
from app.types.documents import CountedCollection
from app.types.lens_indexes import LensIndex, LensIndexState, LensIndexStatus, state_of

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

MOST_OF_COLLECTION = 16  # each one slows every ingestion down a little
_BYTES_OF_LABEL = 76  # its JSON without the numbers, 44, and its entry in the index of labels, about 32
_BYTES_OF_NUMBER = 8 / 3  # float16 in base64


class QueuedLensIndexes:
    """Queues, lists and deletes lens indexes. Workers build them."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self._catalog = catalog

    def build(self, collection: str, lens: str) -> LensIndexStatus:
        """Queue a new index, or queue an existing one again with the present values of the lens.

        Raises UnknownCollectionError, UnknownLensError, InputError and ConflictError.
        """
        self._catalog.collection(collection)
        values = _values_of(self._catalog, lens)
        present = self._catalog.lens_indexes.of_collection(collection)
        if len(present) >= MOST_OF_COLLECTION and all(each.lens != lens for each in present):
            raise ConflictError(
                f"The collection {collection!r} has {len(present)} lens indexes, the maximum. Delete one first."
            )
        queued = self._catalog.lens_indexes.queue(collection, lens, values)
        return self._status(queued, self._catalog.counted_collection(collection))

    def status(self, collection: str) -> list[LensIndexStatus]:
        """The status of every index of the collection. Raises UnknownCollectionError."""
        self._catalog.collection(collection)
        found = self._catalog.lens_indexes.of_collection(collection)
        if not found:
            return []
        counted = self._catalog.counted_collection(collection)  # counting reads a row per document
        return [self._status(each, counted) for each in found]

    def delete(self, collection: str, lens: str) -> None:
        """Delete an index; its labels are removed in the background. Raises UnknownCollectionError, NotFoundError."""
        if not self._catalog.lens_indexes.delete(collection, lens):
            raise NotFoundError(
                f"The collection {collection!r} has no index of the lens {lens!r}. `gircse lenses index list -c "
                f"{collection}` lists its indexes."
            )

    def _status(self, found: LensIndex, collection: CountedCollection) -> LensIndexStatus:
        try:
            is_of_lens = tuple(find_lens(self._catalog, found.lens).values) == found.values
        except NotFoundError:
            is_of_lens = False
        state = state_of(found, is_current=is_of_lens and found.is_built_for(collection))
        is_open = state in (LensIndexState.WAITING, LensIndexState.BUILDING)
        job = found.job
        chunks = collection.chunk_count if state is LensIndexState.READY else found.chunks  # ingestion has added some
        return LensIndexStatus(
            collection=found.collection,
            lens=found.lens,
            values=found.values,
            state=state,
            progress=job.progress if job is not None and is_open else float(state is LensIndexState.READY),
            chunks=chunks,
            bytes=round(chunks * (_BYTES_OF_LABEL + _BYTES_OF_NUMBER * len(found.values))),
            seconds=found.seconds,
            created_at=found.created_at,
            built_at=found.built_at,
            error=job.error if job is not None and state is not LensIndexState.READY else None,
            job_id=job.id if job is not None else None,
        )


def _values_of(catalog: LensesAndJudgements, lens: str) -> tuple[str, ...]:
    values = tuple(find_lens(catalog, lens).values)
    if not values:
        raise InputError(f"The lens {lens!r} names no values, so there is nothing to index. Save it with values first.")
    return values
