"""Compares the catalog with the vector index, in both directions, and mends what differs.

Streams ids page by page. What a job is at work on is left to it; unmanaged points are only reported.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from app.collections.garbage import delete_points_of, discard_file, drop_index, remove_unneeded
from app.collections.library import create_index
from app.errors import EngineFaultError
from app.ports.ledger import Ledger
from app.ports.parts import BlobStore, VectorIndex
from app.search.retrieval import KEYS_OF_EVERY_CHUNK
from app.types.documents import Chunk, Collection, GarbageKind, IndexRole, Point

_PHYSICAL_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*--[0-9]+")


class Inconsistency(StrEnum):
    MISSING_INDEX = "an index of the catalog is missing"
    UNNAMED_INDEX = "an index that no collection names"
    UNMANAGED_INDEX = "an unmanaged collection"
    DAMAGED_INDEX = "an index that the engine cannot read: `gircse doctor --rebuild`"
    WRONG_ALIAS = "the public name means another index"
    MISSING_POINTS = "chunks without their points"
    STALE_POINTS = "points without a chunk"
    WRONG_POINTS = "points that name another document"
    LOST_POINTS = "points of a document that is gone"
    UNMANAGED_POINTS = "unmanaged points"
    UNNEEDED_FILES = "stored files that no document has"


# May belong to another installation: removed only on request.
UNMANAGED = frozenset({Inconsistency.UNMANAGED_INDEX, Inconsistency.UNMANAGED_POINTS})
# What the document's own ingestion puts right: it compares with the index, embeds what is missing, deletes the rest.
_MENDED_BY_INGESTION = frozenset({Inconsistency.MISSING_POINTS, Inconsistency.STALE_POINTS, Inconsistency.WRONG_POINTS})


@dataclass(frozen=True, slots=True)
class Difference:
    """`ids` are of points or files, of one page at most; `document_id` where one is concerned."""

    kind: Inconsistency
    index: str
    collection: str = ""
    document_id: str = ""
    ids: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return max(1, len(self.ids))


class ConsistencyCheck:
    def __init__(self, *, catalog: Ledger, index: VectorIndex, blobs: BlobStore) -> None:
        self._catalog = catalog
        self._index = index
        self._blobs = blobs

    def differences(self) -> Iterator[Difference]:
        """May be stopped at any time. Mending each as it comes does not disturb the rest."""
        remove_unneeded(catalog=self._catalog, index=self._index, blobs=self._blobs)
        present = set(self._index.indexes())
        for collection in self._catalog.collections():
            yield from self._of_collection(collection, present)
        yield from self._unnamed_indexes()
        yield from self._unneeded_files()

    def of_index(self, collection: Collection, index: str) -> Iterator[Difference]:
        """Of one physical index of the collection, which exists."""
        try:
            for page in self._index.scan(index):
                yield from self._of_points(collection, index, page)
            for chunks in self._catalog.chunk_pages(index):
                yield from self._of_chunks(collection, index, chunks)
        except EngineFaultError:
            yield Difference(Inconsistency.DAMAGED_INDEX, index, collection.name)

    def mend(self, difference: Difference, *, removes_unmanaged: bool = False) -> bool:
        """Whether something was done. Ingestion that this queues is the worker's."""
        kind = difference.kind
        if kind in UNMANAGED and not removes_unmanaged:
            return False
        if kind is Inconsistency.DAMAGED_INDEX:
            return False
        if kind in _MENDED_BY_INGESTION:
            return self._mend_document(difference)
        if kind is Inconsistency.MISSING_INDEX:
            self._make_again(difference)
        elif kind in (Inconsistency.UNNAMED_INDEX, Inconsistency.UNMANAGED_INDEX):
            drop_index(self._index, difference.index)
        elif kind is Inconsistency.WRONG_ALIAS:
            self._index.point_to(difference.collection, difference.index)
        elif kind is Inconsistency.UNNEEDED_FILES:
            for content_hash in difference.ids:
                discard_file(self._blobs, content_hash, catalog=self._catalog)
        else:
            self._index.delete_points(difference.index, difference.ids)
        return True

    def _of_collection(self, collection: Collection, present: set[str]) -> Iterator[Difference]:
        building = self._catalog.standby(collection.name, IndexRole.BUILDING)
        for name in self._catalog.index_names(collection.name):
            if name in present:
                if building is None or name != building.active_index:  # that one is looked at before the switch
                    yield from self.of_index(collection, name)
            else:
                yield Difference(Inconsistency.MISSING_INDEX, name, collection.name)
                if name == collection.active_index:
                    for chunks in self._catalog.chunk_pages(name):
                        yield from self._missing(collection, name, chunks)
        if self._index.aliases().get(collection.name) != collection.active_index:
            yield Difference(Inconsistency.WRONG_ALIAS, collection.active_index, collection.name)

    def _of_points(self, collection: Collection, index: str, page: Sequence[Point]) -> Iterator[Difference]:
        """Of points that are there: is each a chunk, and of the document that it names?"""
        owners = self._catalog.chunk_owners(index, [point.id for point in page])
        unexpected: dict[tuple[Inconsistency, str], list[str]] = defaultdict(list)
        for point in page:
            named, owner = _document_of(point), owners.get(point.id)
            if owner is not None and owner != named:
                unexpected[Inconsistency.WRONG_POINTS, owner].append(point.id)
            elif owner is None:
                unexpected[Inconsistency.STALE_POINTS if named else Inconsistency.UNMANAGED_POINTS, named or ""].append(
                    point.id
                )
        is_idle = self._catalog.unqueued_documents([document_id for _, document_id in unexpected if document_id])
        for (kind, document_id), ids in unexpected.items():
            if document_id and document_id not in is_idle:
                kind = Inconsistency.LOST_POINTS
            elif document_id and not is_idle[document_id]:
                continue  # a job is at work on it
            yield Difference(kind, index, collection.name, document_id, tuple(ids))

    def _of_chunks(self, collection: Collection, index: str, chunks: Sequence[Chunk]) -> Iterator[Difference]:
        present = self._index.present_ids(index, [chunk.id for chunk in chunks])
        yield from self._missing(collection, index, [chunk for chunk in chunks if chunk.id not in present])

    def _missing(self, collection: Collection, index: str, chunks: Sequence[Chunk]) -> Iterator[Difference]:
        if not chunks:
            return
        # Asked again: the document may have been replaced between the two looks.
        still = self._catalog.chunk_owners(index, [chunk.id for chunk in chunks])
        is_idle = self._catalog.unqueued_documents(list(set(still.values())))
        by_document: dict[str, list[str]] = defaultdict(list)
        for chunk_id, document_id in still.items():
            if is_idle.get(document_id):
                by_document[document_id].append(chunk_id)
        for document_id, ids in by_document.items():
            yield Difference(Inconsistency.MISSING_POINTS, index, collection.name, document_id, tuple(ids))

    def _unnamed_indexes(self) -> Iterator[Difference]:
        aliases = set(self._index.aliases().values())
        present = self._index.indexes()  # before the catalog is asked: what is made meanwhile is reserved there
        named = set(self._catalog.reserved_names(GarbageKind.INDEX))
        for collection in self._catalog.collections():
            named.update(self._catalog.index_names(collection.name))
        for name in present:
            if name not in named:
                # Another installation may share this Qdrant server; what it uses has a public name.
                is_ours = _PHYSICAL_NAME.fullmatch(name) and name not in aliases
                yield Difference(Inconsistency.UNNAMED_INDEX if is_ours else Inconsistency.UNMANAGED_INDEX, name)

    def _unneeded_files(self) -> Iterator[Difference]:
        noted = set(self._catalog.reserved_names(GarbageKind.FILE))
        for content_hash in self._blobs.hashes():
            if content_hash not in noted and not self._catalog.needs_file(content_hash):
                yield Difference(Inconsistency.UNNEEDED_FILES, "", ids=(content_hash,))

    def _mend_document(self, difference: Difference) -> bool:
        collection = self._catalog.collection(difference.collection)
        index, document_id = difference.index, difference.document_id
        if index == collection.active_index and self._catalog.queue_again(document_id):
            return True
        # A document that cannot be ingested, or an index beside the active one, which a reindex or a roll-back fills.
        if difference.kind is Inconsistency.STALE_POINTS:
            self._index.delete_points(index, difference.ids)
        else:
            delete_points_of(self._index, index, document_id)
            self._index.delete_points(index, difference.ids)
            self._catalog.forget_indexed(index, document_id=document_id)
        return True

    def _make_again(self, difference: Difference) -> None:
        collection = self._catalog.collection(difference.collection)
        previous = self._catalog.standby(difference.collection, IndexRole.PREVIOUS)
        if previous is not None and previous.active_index == difference.index:
            self._catalog.discard_index(difference.collection, IndexRole.PREVIOUS)
            return
        building = self._catalog.standby(difference.collection, IndexRole.BUILDING)
        if building is not None and building.active_index == difference.index:
            collection = building
            self._catalog.forget_indexed(difference.index)
        create_index(self._index, replace(collection, active_index=difference.index))
        self._catalog.queue_lens_indexes(collection.name, is_lost=True)


def _document_of(point: Point) -> str | None:
    """The document that a point of ours names; None for an unmanaged point."""
    metadata = point.payload.get("metadata")
    is_ours = isinstance(metadata, Mapping) and metadata.keys() >= KEYS_OF_EVERY_CHUNK
    return str(metadata["document_id"]) if is_ours else None  # type: ignore[index]
