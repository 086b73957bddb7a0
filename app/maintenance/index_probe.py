"""Checks that an index agrees with the catalog and can be searched, on a sample of its points or on all."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from app.errors import MISSING_INDEX, EngineFaultError, NotFoundError
from app.ports.parts import VectorIndex
from app.types.documents import Collection, PointDamage

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

SAMPLE = 32
MOST_IN_PLACE = 0.05  # share of an index's points; with more damaged points the whole index is rebuilt
_PAGE = 256
_ATTEMPTS, _PAUSE_S = 3, 0.3  # a fault may be temporary


@dataclass(frozen=True, slots=True)
class IndexDamage:
    """The damage of an index.

    lacking: the number of missing points, if all other points are intact. None: there is other damage, too.
    ids: the damaged points. is_of_points: only a few of the checked points are damaged, and nothing else is.
    is_missing: there is no such index.
    """

    reason: str
    lacking: int | None = None
    ids: tuple[str, ...] = ()
    is_of_points: bool = False
    is_missing: bool = False


def probe_index(
    catalog: SqlCatalog,
    index: VectorIndex,
    collection: Collection,
    *,
    sample: int | None = SAMPLE,
    former: IndexDamage | None = None,
) -> IndexDamage | None:
    """The damage of the active index, or None. Checks `sample` points (None: all) and the points damaged in `former`.

    Ignores chunks of documents that are being ingested; while there are any, it does not compare counts. Raises
    VectorIndexUnavailableError if the engine does not respond.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _look(catalog, index, collection, sample, former)
        except NotFoundError:
            present = catalog.collection(collection.name)  # raises if the collection was deleted
            if present.active_index == collection.active_index:
                return IndexDamage(MISSING_INDEX, is_missing=True)
            collection = present
        except EngineFaultError as error:
            fault = str(error)
            if attempt < _ATTEMPTS - 1:
                time.sleep(_PAUSE_S)
    return IndexDamage(fault.partition(". If it goes on")[0])


def _look(
    catalog: SqlCatalog, index: VectorIndex, collection: Collection, sample: int | None, former: IndexDamage | None
) -> IndexDamage | None:
    name = collection.active_index
    there, wanted = index.count(name), catalog.indexes.chunk_count(name)
    is_whole = sample is None or wanted <= max(sample, _PAGE)
    lacking, looked_at = 0, 0
    damages: list[PointDamage] = []
    for ids in _pages(catalog, name) if is_whole else [_chosen(catalog, name, sample or 0, former)]:
        missing = _missing(catalog, index, name, ids)
        lacking += len(missing)
        present = [each for each in ids if each not in missing]
        looked_at += len(present)
        # Check damaged points again without documents that a worker has started to ingest in the meantime.
        if present and index.inspect(name, present):
            still = _at_rest(catalog, name, present)
            if still and (found := index.inspect(name, still)):
                damages.append(found)
                if not found.ids:
                    return IndexDamage(found.reason, ids=tuple(still))
    if damages:
        wrong = tuple(each for damage in damages for each in damage.ids)
        is_of_points = len(wrong) <= max(1, MOST_IN_PLACE * looked_at)
        return IndexDamage(damages[0].reason, ids=wrong, is_of_points=is_of_points)
    if not is_whole and (lacking or (there < wanted and catalog.consistency.is_at_rest(collection.name))):
        lacking = sum(len(each) for each in map(partial(_missing, catalog, index, name), _pages(catalog, name)))
    return IndexDamage(f"{lacking} of its {wanted} chunks lack their points", lacking) if lacking else None


def sample_of(catalog: SqlCatalog, collection: Collection, count: int) -> Iterator[list[str]]:
    """Pages of ids of about `count` chunks of the active index, or of all chunks if it has no more."""
    name = collection.active_index
    if catalog.indexes.chunk_count(name) <= count:
        yield from _pages(catalog, name)
        return
    ids = catalog.consistency.sample_chunks(name, count=count)
    for start in range(0, len(ids), _PAGE):
        yield ids[start : start + _PAGE]


def _chosen(catalog: SqlCatalog, name: str, count: int, former: IndexDamage | None) -> list[str]:
    return list({*catalog.consistency.sample_chunks(name, count=count), *(former.ids if former else ())})


def _pages(catalog: SqlCatalog, name: str) -> Iterator[list[str]]:
    for page in catalog.consistency.chunk_pages(name):
        for start in range(0, len(page), _PAGE):
            yield [chunk.id for chunk in page[start : start + _PAGE]]


def _at_rest(catalog: SqlCatalog, name: str, ids: Sequence[str]) -> list[str]:
    """The chunk ids whose documents have no open job."""
    owners = catalog.consistency.chunk_owners(name, ids)
    is_idle = catalog.consistency.unqueued_documents(list(set(owners.values())))
    return [chunk_id for chunk_id, document_id in owners.items() if is_idle.get(document_id)]


def _missing(catalog: SqlCatalog, index: VectorIndex, name: str, ids: Sequence[str]) -> set[str]:
    there = index.present_ids(name, ids)
    absent = _at_rest(catalog, name, [each for each in ids if each not in there])
    return set(absent) - index.present_ids(name, absent)
