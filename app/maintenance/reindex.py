"""Builds a new index of a collection under another contract, switches to it in one step, and can switch back.

Searches use the live index, which the catalog names, until the switch. An interrupted build can be resumed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from app.documents.garbage import delete_points_of, remove_unneeded
from app.documents.library import check_contract, create_index
from app.errors import ConflictError, DocumentError, NotFoundError, UnknownDocumentError
from app.maintenance.consistency import ConsistencyCheck
from app.ports.ledger import IngestedDocument
from app.ports.parts import BlobStore, Embedder, VectorIndex
from app.search.fingerprints import require_same_model
from app.types.documents import CONTRACT, Collection, Document, IndexRole
from app.types.upkeep import ContractChange

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

log = logging.getLogger(__name__)

_LEASE = timedelta(minutes=10)  # reservation of the new index's name until its row is written
_ROUNDS = 100  # passes to catch up with documents that change meanwhile
_PAGE = 256  # documents per query


@dataclass(slots=True)
class ReindexReport:
    documents: int = 0
    chunks: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)  # uri → reason


class IndexedDocuments(Protocol):
    def of(self, document_id: str) -> IngestedDocument:
        """The indexed document. Raises the error that kept it out of the index."""
        ...


IndexDocuments = Callable[[Sequence[Document], Collection], AbstractContextManager[IndexedDocuments]]


class Reindexer:
    """Builds, switches and rolls back indexes.

    `index_documents` writes the points of documents to the active index of the given collection; their chunks can be
    read until its block ends. Documents of at most `small_bytes` are indexed together, up to a page of them.
    """

    def __init__(
        self,
        *,
        catalog: SqlCatalog,
        index: VectorIndex,
        blobs: BlobStore,
        embedder: Embedder,
        index_documents: IndexDocuments,
        small_bytes: int,
        page: int = _PAGE,
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._blobs = blobs
        self._embedder = embedder
        self._index_documents = index_documents
        self._small_bytes = small_bytes
        self._page = page
        self._consistency = ConsistencyCheck(catalog=catalog, index=index, blobs=blobs)

    def begin(self, name: str, change: ContractChange, *, restart: bool = False) -> Collection:
        """Create a new index, or resume the unfinished one, and return the collection as it will be after the switch.

        Raises ConflictError if nothing would change or the unfinished index has another contract.
        """
        present = self._catalog.collection(name)
        if restart:
            self._catalog.indexes.discard(name, IndexRole.BUILDING)
            self._remove_unneeded()
        building = self._catalog.indexes.standby(name, IndexRole.BUILDING)
        if building is not None:
            return self._resumed(building, self._changed(building, change))
        target = self._changed(present, change)
        if _same_contract(target, present) and not self._is_outdated(present.active_index):
            raise ConflictError(
                f"The collection {name!r} already has these settings. Change the model, instruction, steps or chunks."
            )
        check_contract(target, self._embedder)
        return self._begun(target)

    def _changed(self, collection: Collection, change: ContractChange) -> Collection:
        """The collection with the requested changes and the model in use."""
        info = self._embedder.info
        changed = replace(
            collection,
            fingerprint=info.fingerprint,
            dimension=info.dimension,
            **change.given(),  # type: ignore[arg-type]
        )
        return replace(changed, vectors_per_chunk=info.vectors_per_document(changed.document_steps))

    def _begun(self, target: Collection) -> Collection:
        target = replace(target, active_index=self._catalog.indexes.reserve(target.name, lease=_LEASE))
        create_index(self._index, target)
        self._catalog.indexes.add_building(target)
        return target

    def begin_rebuild(self, name: str) -> Collection:
        """Create a new index beside the damaged one, which stays until the new one is complete.

        Raises FingerprintMismatchError if another model is in use: it would make other vectors.
        """
        present = self._catalog.collection(name)
        require_same_model(present, self._embedder)
        building = self._catalog.indexes.standby(name, IndexRole.BUILDING)
        if building is not None:
            if _same_contract(building, present) and self._index.exists(building.active_index):
                return building  # resume an interrupted rebuild
            self._catalog.indexes.discard(name, IndexRole.BUILDING)
            self._remove_unneeded()
        return self._begun(present)

    def end_rebuild(self, name: str) -> None:
        """Drop the damaged index after the switch to the new one."""
        self._catalog.indexes.discard(name, IndexRole.PREVIOUS)
        self._remove_unneeded()

    def build(
        self, target: Collection, *, on_progress: Callable[[int, int], None] = lambda done, total: None
    ) -> ReindexReport:
        """Fill the new index, check its count and switch to it. `on_progress` receives (documents done, total).

        Raises ConflictError if documents still change after `_ROUNDS` passes.
        """
        report = ReindexReport()
        for _ in range(_ROUNDS):
            self._catch_up(target, report, on_progress)
            if self._agrees(target):
                self._catalog.indexes.switch(target.name, IndexRole.BUILDING)
            present = self._catalog.counted_collection(target.name)
            if present.active_index == target.active_index:  # by this run, or by another one beside it
                self._index.point_to(target.name, target.active_index)
                self._remove_unneeded()
                report.documents, report.chunks = present.document_count, present.chunk_count
                return report
        raise ConflictError(
            f"The documents of {target.name!r} change faster than they are indexed. Run this again at a quieter time. "
            "It resumes where it stopped."
        )

    def roll_back(self, name: str) -> Collection:
        """Switch to the previous index; a second call switches forward again. Needs no model. Raises ConflictError."""
        former = self._catalog.indexes.standby(name, IndexRole.PREVIOUS)
        if former is None:
            self._catalog.collection(name)
            raise ConflictError(f"The collection {name!r} has no previous index.")
        if not self._index.exists(former.active_index):
            raise ConflictError(
                f"The previous index {former.active_index!r} no longer exists in the engine; nothing was changed. "
                f"`gircse collections prune {name}` removes its record."
            )
        self._agrees(former)  # the switch queues the documents that it lacks
        self._catalog.indexes.switch(name, IndexRole.PREVIOUS)
        self._index.point_to(name, former.active_index)
        return self._catalog.collection(name)

    def prune(self, name: str) -> str | None:
        """Drop the previous index, which is kept for a roll-back. Returns its name, or None if there was none."""
        self._catalog.collection(name)
        dropped = self._catalog.indexes.discard(name, IndexRole.PREVIOUS)
        self._remove_unneeded()
        return dropped

    def _is_outdated(self, index: str) -> bool:
        """Whether the index lacks sparse vectors or replicas, which a new index would have."""
        if not self._index.exists(index):
            return False
        return not self._index.has_sparse(index) or self._index.lacks_replicas(index)

    def _resumed(self, building: Collection, wanted: Collection) -> Collection:
        if not _same_contract(building, wanted):
            differing = ", ".join(
                f"{field} {getattr(building, field)!r}, not {getattr(wanted, field)!r}"
                for field in CONTRACT
                if getattr(building, field) != getattr(wanted, field)
            )
            raise ConflictError(
                f"{building.name!r} has an unfinished index with {differing}. Resume it with that model and without "
                "options, or discard it with --restart."
            )
        require_same_model(building, self._embedder)
        if not self._index.exists(building.active_index):  # crashed before creating it, or Qdrant was emptied
            self._catalog.consistency.forget_indexed(building.active_index)
            create_index(self._index, building)
        return building

    def _catch_up(self, target: Collection, report: ReindexReport, on_progress: Callable[[int, int], None]) -> None:
        """Index the documents whose present revision the new index lacks, in one pass."""
        name, index, after = target.name, target.active_index, ""
        total = self._catalog.counted_collection(name).document_count
        done = total - self._catalog.indexes.count_unindexed(name, index)
        on_progress(done, total)
        while page := self._catalog.indexes.unindexed_documents(name, index, after=after, limit=self._page):
            for together in self._blocks(page):
                with self._index_documents(together, target) as indexed:
                    for document in together:
                        self._record(document, target, indexed, report)
                        done += 1
                        on_progress(done, total)
            after = page[-1].id

    def _blocks(self, page: Sequence[Document]) -> Iterator[Sequence[Document]]:
        small = [document for document in page if document.byte_count <= self._small_bytes]
        if small:
            yield small
        yield from ([document] for document in page if document.byte_count > self._small_bytes)

    def _record(self, document: Document, target: Collection, indexed: IndexedDocuments, report: ReindexReport) -> None:
        index = target.active_index
        report.unreadable.pop(document.uri, None)
        try:
            is_recorded = self._catalog.indexes.record(index, document, indexed.of(document.id).chunks)
        except (DocumentError, NotFoundError) as error:  # if it was replaced, the next pass indexes the new file
            report.unreadable[document.uri] = str(error)
            delete_points_of(self._index, index, document.id)
            is_recorded = self._catalog.indexes.record(index, document, [])
        if not is_recorded:
            report.unreadable.pop(document.uri, None)
            try:
                self._catalog.document(document.id)
            except UnknownDocumentError:
                delete_points_of(self._index, index, document.id)

    def _agrees(self, collection: Collection) -> bool:
        """Whether index and catalog have the same number of points.

        If not, surplus points are deleted, and documents with missing points are recorded as not indexed, so that the
        next pass indexes them.
        """
        index = collection.active_index
        if self._index.count(index) == self._catalog.indexes.chunk_count(index):
            return True
        for difference in self._consistency.of_index(collection, index):
            log.warning("Repaired in the index %s: %s", index, difference)
            self._consistency.repair(difference, removes_unmanaged=True)  # nothing else writes to a standby index
        return False

    def _remove_unneeded(self) -> None:
        remove_unneeded(garbage=self._catalog.garbage, index=self._index, blobs=self._blobs)


def _same_contract(one: Collection, other: Collection) -> bool:
    return all(getattr(one, field) == getattr(other, field) for field in CONTRACT)
