"""Compares the catalog with the vector index and the stored files, in both directions, and repairs differences.

Streams ids page by page and ignores documents with an open job. Unmanaged points (not by gircse) are only reported.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING

from app.documents.garbage import delete_points_of, discard_file, drop_index, remove_unneeded
from app.documents.library import create_index
from app.errors import EngineFaultError
from app.maintenance.proofs import Proofs
from app.maintenance.row_comparison import contradicts_chunk, contradicts_document
from app.ports.parts import BlobStore, VectorIndex
from app.search.retrieval import KEYS_OF_EVERY_CHUNK
from app.types.documents import Chunk, Collection, Document, GarbageKind, IndexRole, Point

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

_MOST_ASKED = 16  # points per document whose payloads are compared
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
    WRONG_CHUNKS = "chunks whose rows contradict their points"
    WRONG_COUNTS = "documents whose rows contradict those of their chunks"
    WRONG_DOCUMENTS = "documents whose rows contradict their points"
    LOST_DOCUMENTS = "points of a document that is gone, though its file is kept"
    UNNAMED_FILES = "stored files that a damaged row may mean"
    LOST_INDEX = "an index of which chunks are known, though no collection names it"


# They may belong to another installation, so they are removed only on request.
UNMANAGED = frozenset({Inconsistency.UNMANAGED_INDEX, Inconsistency.UNMANAGED_POINTS})
# Signs of damaged or lost rows of the catalog. What such a row names is neither deleted nor rebuilt.
OF_DAMAGED_ROWS = frozenset(
    {
        Inconsistency.WRONG_DOCUMENTS,
        Inconsistency.LOST_DOCUMENTS,
        Inconsistency.UNNAMED_FILES,
        Inconsistency.LOST_INDEX,
    }
)
# Repaired by ingesting the document again, which embeds missing points and deletes surplus ones.
_MENDED_BY_INGESTION = frozenset({Inconsistency.MISSING_POINTS, Inconsistency.STALE_POINTS, Inconsistency.WRONG_POINTS})


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One difference. `ids` are the points or files concerned, at most one page; `document_id` is "" for none."""

    kind: Inconsistency
    index: str
    collection: str = ""
    document_id: str = ""
    ids: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return max(1, len(self.ids))


class ConsistencyCheck:
    def __init__(self, *, catalog: SqlCatalog, index: VectorIndex, blobs: BlobStore) -> None:
        self._catalog = catalog
        self._index = index
        self._blobs = blobs
        self._proofs = Proofs(catalog=catalog, index=index, blobs=blobs)

    def differences(self) -> Iterator[Discrepancy]:
        """Yield all differences. The caller may stop early, and may repair each one before taking the next."""
        remove_unneeded(garbage=self._catalog.garbage, index=self._index, blobs=self._blobs)
        self._proofs = Proofs(catalog=self._catalog, index=self._index, blobs=self._blobs)
        present = set(self._index.indexes())
        for collection in self._catalog.collections():
            yield from self._of_collection(collection, present)
        yield from self.unnamed_indexes()
        yield from self._unneeded_files()

    def of_index(self, collection: Collection, index: str) -> Iterator[Discrepancy]:
        """Differences in one physical index of the collection, which must exist."""
        try:
            for page in self._index.scan(index):
                yield from self._of_points(collection, index, page)
            for chunks in self._catalog.consistency.chunk_pages(index):
                yield from self._of_chunks(collection, index, chunks)
        except EngineFaultError:
            yield Discrepancy(Inconsistency.DAMAGED_INDEX, index, collection.name)

    def of_counts(self, collection: Collection) -> Iterator[Discrepancy]:
        index = collection.active_index
        for document_id in self._catalog.consistency.miscounted_documents(collection.name, index):
            yield Discrepancy(Inconsistency.WRONG_COUNTS, index, collection.name, document_id)

    def of_chunks(self, collection: Collection, pages: Iterable[Sequence[str]]) -> Iterator[Discrepancy]:
        """Checks the points of these chunks in the active index. Skips points that do not exist."""
        for ids in pages:
            try:
                payloads = self._index.payloads(collection.active_index, ids)
            except EngineFaultError:
                yield Discrepancy(Inconsistency.DAMAGED_INDEX, collection.active_index, collection.name)
                return
            points = [Point(point_id, (), payload) for point_id, payload in payloads.items()]
            yield from self._of_points(collection, collection.active_index, points)

    def repair(self, difference: Discrepancy, *, removes_unmanaged: bool = False, removes_proven: bool = False) -> bool:
        """Repair a difference, partly by queueing ingestion for a worker. Returns whether anything was done.

        `removes_proven` trusts the catalog over the other stores, for use right after restoring it from a backup.
        """
        kind = difference.kind
        if kind in UNMANAGED and not removes_unmanaged:
            return False
        if kind is Inconsistency.DAMAGED_INDEX or (kind in OF_DAMAGED_ROWS and not removes_proven):
            return False
        if kind is Inconsistency.WRONG_COUNTS:
            return self._catalog.consistency.queue_again(difference.document_id)
        if kind is Inconsistency.WRONG_CHUNKS:
            return self._repair_chunks(difference)
        if kind in _MENDED_BY_INGESTION:
            return self._repair_document(difference)
        if kind is Inconsistency.MISSING_INDEX:
            self._recreate_index(difference)
        elif kind in (Inconsistency.WRONG_DOCUMENTS, Inconsistency.UNNAMED_FILES):
            return False
        elif kind in (Inconsistency.UNNAMED_INDEX, Inconsistency.UNMANAGED_INDEX, Inconsistency.LOST_INDEX):
            drop_index(self._index, difference.index)
        elif kind is Inconsistency.WRONG_ALIAS:
            self._index.point_to(difference.collection, difference.index)
        elif kind is Inconsistency.UNNEEDED_FILES:
            for content_hash in difference.ids:
                discard_file(self._blobs, content_hash, garbage=self._catalog.garbage)
        else:
            self._index.delete_points(difference.index, difference.ids)
        return True

    def _of_collection(self, collection: Collection, present: set[str]) -> Iterator[Discrepancy]:
        building = self._catalog.indexes.standby(collection.name, IndexRole.BUILDING)
        if collection.active_index not in present and self._has_other_index(collection, present):
            yield Discrepancy(Inconsistency.LOST_INDEX, self._index.aliases()[collection.name], collection.name)
            return
        for name in self._catalog.indexes.names(collection.name):
            if name in present:
                if building is None or name != building.active_index:  # the reindexer checks that one
                    yield from self.of_index(collection, name)
            else:
                yield Discrepancy(Inconsistency.MISSING_INDEX, name, collection.name)
                if name == collection.active_index:
                    for chunks in self._catalog.consistency.chunk_pages(name):
                        yield from self._missing(collection, name, chunks)
        yield from self.of_counts(collection)
        if self._index.aliases().get(collection.name) != collection.active_index:
            yield Discrepancy(Inconsistency.WRONG_ALIAS, collection.active_index, collection.name)

    def _has_other_index(self, collection: Collection, present: set[str]) -> bool:
        """Whether the alias points to an index with chunks in the catalog, while the collection's row names another."""
        named = self._index.aliases().get(collection.name)
        if named is None or named not in present or named in self._catalog.indexes.names(collection.name):
            return False
        return self._catalog.indexes.chunk_count(named) > 0

    def _of_points(self, collection: Collection, index: str, page: Sequence[Point]) -> Iterator[Discrepancy]:
        """Check that each existing point has a chunk row, and that both name the same document."""
        chunks = self._catalog.consistency.chunk_rows(index, [point.id for point in page])
        owners = {chunk_id: chunk.document_id for chunk_id, chunk in chunks.items()}
        unexpected: dict[tuple[Inconsistency, str], list[str]] = defaultdict(list)
        for point in page:
            named, owner = _document_of(point), owners.get(point.id)
            if owner is not None and owner != named:
                unexpected[Inconsistency.WRONG_POINTS, owner].append(point.id)
            elif owner is None:
                unexpected[Inconsistency.STALE_POINTS if named else Inconsistency.UNMANAGED_POINTS, named or ""].append(
                    point.id
                )
        is_idle = self._catalog.consistency.unqueued_documents(
            [document_id for _, document_id in unexpected if document_id]
        )
        for (kind, document_id), ids in unexpected.items():
            if document_id and document_id not in is_idle:
                if kind is Inconsistency.WRONG_POINTS:
                    yield from self._of_lost_owner(collection, index, page, ids)
                    continue
                is_proven = self._proofs.has_file(index, ids)
                kind = Inconsistency.LOST_DOCUMENTS if is_proven else Inconsistency.LOST_POINTS
            elif document_id and not is_idle[document_id]:
                continue  # the document has an open job
            yield Discrepancy(kind, index, collection.name, document_id, tuple(ids))
        if index == collection.active_index:
            yield from self._of_rows(collection, page, chunks)

    def _of_lost_owner(
        self, collection: Collection, index: str, page: Sequence[Point], ids: Sequence[str]
    ) -> Iterator[Discrepancy]:
        """Differences of chunks whose rows name a document that does not exist, unlike their points."""
        named = {point.id: _document_of(point) or "" for point in page if point.id in ids}
        is_there = self._catalog.consistency.unqueued_documents(list(set(named.values())))
        for document_id in sorted(set(named.values())):
            own_ids = tuple(each for each, owner in named.items() if owner == document_id)
            kind = Inconsistency.WRONG_CHUNKS if document_id in is_there else Inconsistency.LOST_DOCUMENTS
            yield Discrepancy(kind, index, collection.name, document_id, own_ids)

    def _of_rows(
        self, collection: Collection, page: Sequence[Point], chunks: Mapping[str, Chunk]
    ) -> Iterator[Discrepancy]:
        """Compare the contents of chunk and document rows with the payloads of their points."""
        together = [each for each in page if each.id in chunks and chunks[each.id].document_id == _document_of(each)]
        documents = self._catalog.consistency.documents_at_rest(
            list({chunks[each.id].document_id for each in together})
        )
        wrong: dict[tuple[Inconsistency, str], list[str]] = defaultdict(list)
        for point in together:
            document = documents.get(chunks[point.id].document_id)
            metadata = point.payload["metadata"]
            if document is None or not isinstance(metadata, Mapping):
                continue
            if contradicts_chunk(metadata, chunks[point.id]):
                wrong[Inconsistency.WRONG_CHUNKS, document.id].append(point.id)
            elif contradicts_document(metadata, document):
                is_of_point = self._has_agreeing_point(collection.active_index, document, point.id)
                kind = Inconsistency.WRONG_CHUNKS if is_of_point else Inconsistency.WRONG_DOCUMENTS
                wrong[kind, document.id].append(point.id)
        still = self._catalog.consistency.documents_at_rest([document_id for _, document_id in wrong]) if wrong else {}
        for (kind, document_id), ids in wrong.items():
            if still.get(document_id) == documents[document_id]:  # otherwise a job has changed it in the meantime
                yield Discrepancy(kind, collection.active_index, collection.name, document_id, tuple(ids))

    def _has_agreeing_point(self, index: str, document: Document, but: str) -> bool:
        """Whether another point of the document agrees with its row. Then the row is right and this point is wrong."""
        others = (each for _, each in self._index.points_of(index, [document.id]) if each != but)
        for payload in self._index.payloads(index, list(islice(others, _MOST_ASKED))).values():
            metadata = payload.get("metadata")
            if isinstance(metadata, Mapping) and not contradicts_document(metadata, document):
                return True
        return False

    def _of_chunks(self, collection: Collection, index: str, chunks: Sequence[Chunk]) -> Iterator[Discrepancy]:
        present = self._index.present_ids(index, [chunk.id for chunk in chunks])
        yield from self._missing(collection, index, [chunk for chunk in chunks if chunk.id not in present])

    def _missing(self, collection: Collection, index: str, chunks: Sequence[Chunk]) -> Iterator[Discrepancy]:
        if not chunks:
            return
        # Query the catalog again: the document may have been replaced in the meantime.
        still = self._catalog.consistency.chunk_owners(index, [chunk.id for chunk in chunks])
        is_idle = self._catalog.consistency.unqueued_documents(list(set(still.values())))
        by_document: dict[str, list[str]] = defaultdict(list)
        for chunk_id, document_id in still.items():
            if is_idle.get(document_id):
                by_document[document_id].append(chunk_id)
        for document_id, ids in by_document.items():
            yield Discrepancy(Inconsistency.MISSING_POINTS, index, collection.name, document_id, tuple(ids))

    def unnamed_indexes(self) -> Iterator[Discrepancy]:
        """Indexes of the engine that no collection names."""
        aliases = set(self._index.aliases().values())
        present = self._index.indexes()  # read before the catalog, which reserves names of new indexes
        named = set(self._catalog.garbage.names(GarbageKind.INDEX))
        for collection in self._catalog.collections():
            named.update(self._catalog.indexes.names(collection.name))
        for name in present:
            if name not in named:
                # Another installation may share this Qdrant server; the indexes that it uses have an alias.
                is_ours = _PHYSICAL_NAME.fullmatch(name) and name not in aliases
                kind = Inconsistency.UNNAMED_INDEX if is_ours else Inconsistency.UNMANAGED_INDEX
                yield Discrepancy(Inconsistency.LOST_INDEX if self._catalog.indexes.chunk_count(name) else kind, name)

    def _unneeded_files(self) -> Iterator[Discrepancy]:
        for content_hash in self._proofs.unneeded:
            if not self._catalog.garbage.needs_file(content_hash):  # query again: a document may have been added
                is_proven = self._proofs.is_of_row(content_hash)
                kind = Inconsistency.UNNAMED_FILES if is_proven else Inconsistency.UNNEEDED_FILES
                yield Discrepancy(kind, "", ids=(content_hash,))

    def _repair_chunks(self, difference: Discrepancy) -> bool:
        """Queue ingestion, which rewrites rows and payloads and keeps vectors."""
        index, document_id = difference.index, difference.document_id
        for owner in set(self._catalog.consistency.chunk_owners(index, difference.ids).values()) - {document_id}:
            self._catalog.consistency.forget_indexed(index, document_id=owner)
        return self._catalog.consistency.queue_again(document_id)

    def _repair_document(self, difference: Discrepancy) -> bool:
        collection = self._catalog.collection(difference.collection)
        index, document_id = difference.index, difference.document_id
        if difference.kind is Inconsistency.MISSING_POINTS and not self._has_original(document_id):
            return False  # without the original nothing can be embedded again, and existing points would be lost
        if index == collection.active_index and self._catalog.consistency.queue_again(document_id):
            return True
        # The document cannot be ingested, or the index is not the active one (a reindex or roll-back fills it).
        if difference.kind is Inconsistency.STALE_POINTS:
            self._index.delete_points(index, difference.ids)
        else:
            delete_points_of(self._index, index, document_id)
            self._index.delete_points(index, difference.ids)
            self._catalog.consistency.forget_indexed(index, document_id=document_id)
        return True

    def _has_original(self, document_id: str) -> bool:
        return self._blobs.is_sound(self._catalog.document(document_id).content_hash)

    def _recreate_index(self, difference: Discrepancy) -> None:
        collection = self._catalog.collection(difference.collection)
        previous = self._catalog.indexes.standby(difference.collection, IndexRole.PREVIOUS)
        if previous is not None and previous.active_index == difference.index:
            self._catalog.indexes.discard(difference.collection, IndexRole.PREVIOUS)
            return
        building = self._catalog.indexes.standby(difference.collection, IndexRole.BUILDING)
        if building is not None and building.active_index == difference.index:
            collection = building
            self._catalog.consistency.forget_indexed(difference.index)
        create_index(self._index, replace(collection, active_index=difference.index))
        self._catalog.lens_indexes.queue_all(collection.name, is_lost=True)


def _document_of(point: Point) -> str | None:
    """The id of the document of a point; None if gircse did not write the point."""
    metadata = point.payload.get("metadata")
    is_ours = isinstance(metadata, Mapping) and metadata.keys() >= KEYS_OF_EVERY_CHUNK
    return str(metadata["document_id"]) if is_ours else None  # type: ignore[index]
