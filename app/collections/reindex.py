"""Builds a collection's index anew beside the live one, under another contract, and switches in one step; or back.

What has been built stays when this is killed. Searches use the live index, which the catalog names, until the switch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Protocol

from app.collections.consistency import ConsistencyCheck
from app.collections.garbage import delete_points_of, remove_unneeded
from app.collections.library import check_contract, create_index
from app.errors import ConflictError, DocumentError, NotFoundError, UnknownDocumentError
from app.ports.ledger import IngestedDocument, Ledger
from app.ports.parts import BlobStore, Embedder, VectorIndex
from app.search.fingerprints import require_same_model
from app.types.documents import CONTRACT, Collection, Document, IndexRole
from app.types.upkeep import ContractChange

log = logging.getLogger(__name__)

_LEASE = timedelta(minutes=10)  # between the name of the new index and its row
_ROUNDS = 100  # of catching up with documents that change
_PAGE = 256  # documents that are looked up at a time


@dataclass(slots=True)
class ReindexReport:
    documents: int = 0
    chunks: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)  # uri → reason


class IndexedDocuments(Protocol):
    def of(self, document_id: str) -> IngestedDocument:
        """Raises why it is not in the index."""
        ...


IndexDocuments = Callable[[Sequence[Document], Collection], AbstractContextManager[IndexedDocuments]]


class Reindexer:
    """`index_documents` makes the points of documents in the active index of the collection that it is given.

    Their chunks can be read until its block ends. Documents of a page with at most `small_bytes` are indexed together.
    """

    def __init__(
        self,
        *,
        catalog: Ledger,
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
        """The collection as it will be: with a new index beside the live one, or with the one that was begun before."""
        present = self._catalog.collection(name)
        if restart:
            self._catalog.discard_index(name, IndexRole.BUILDING)
            self._remove_unneeded()
        building = self._catalog.standby(name, IndexRole.BUILDING)
        if building is not None:
            return self._resumed(building, self._changed(building, change))
        target = self._changed(present, change)
        if _same_contract(target, present) and not self._is_outdated(present.active_index):
            raise ConflictError(
                f"The collection {name!r} is made like this already: name another model, instruction, steps or chunks."
            )
        check_contract(target, self._embedder)
        return self._begun(target)

    def _changed(self, collection: Collection, change: ContractChange) -> Collection:
        """With what is asked for, and the model in use."""
        info = self._embedder.info
        changed = replace(
            collection,
            fingerprint=info.fingerprint,
            dimension=info.dimension,
            **change.given(),  # type: ignore[arg-type]
        )
        return replace(changed, vectors_per_chunk=info.vectors_per_document(changed.document_steps))

    def _begun(self, target: Collection) -> Collection:
        target = replace(target, active_index=self._catalog.reserve_index(target.name, lease=_LEASE))
        create_index(self._index, target)
        self._catalog.add_building_index(target)
        return target

    def begin_rebuild(self, name: str) -> Collection:
        """The same collection with a new index beside the damaged one, which is left as it is until the new one is
        whole. Raises FingerprintMismatchError: vectors are made by the model that made them."""
        present = self._catalog.collection(name)
        require_same_model(present, self._embedder)
        building = self._catalog.standby(name, IndexRole.BUILDING)
        if building is not None:
            if _same_contract(building, present) and self._index.exists(building.active_index):
                return building  # of a rebuild that was interrupted
            self._catalog.discard_index(name, IndexRole.BUILDING)
            self._remove_unneeded()
        return self._begun(present)

    def end_rebuild(self, name: str) -> None:
        """Drops the damaged index."""
        self._catalog.discard_index(name, IndexRole.PREVIOUS)
        self._remove_unneeded()

    def build(
        self, target: Collection, *, tell: Callable[[int, int], None] = lambda done, total: None
    ) -> ReindexReport:
        """Fills the new index, counts it, and switches to it. `tell` hears how many documents of how many are in."""
        report = ReindexReport()
        for _ in range(_ROUNDS):
            self._catch_up(target, report, tell)
            if self._agrees(target):
                self._catalog.switch_index(target.name, IndexRole.BUILDING)
            present = self._catalog.counted_collection(target.name)
            if present.active_index == target.active_index:  # by this run, or by another one beside it
                self._index.point_to(target.name, target.active_index)
                self._remove_unneeded()
                report.documents, report.chunks = present.document_count, present.chunk_count
                return report
        raise ConflictError(
            f"The documents of {target.name!r} change faster than they are indexed: run this again when it is calmer. "
            "What is done stays."
        )

    def roll_back(self, name: str) -> Collection:
        """Back to the index before the last switch; doing it again returns. Needs no model."""
        former = self._catalog.standby(name, IndexRole.PREVIOUS)
        if former is None:
            self._catalog.collection(name)
            raise ConflictError(f"The collection {name!r} has no previous index to go back to.")
        if not self._index.exists(former.active_index):
            raise ConflictError(
                f"The previous index {former.active_index!r} is gone from the vector index; nothing was changed. "
                f"`gircse collections prune {name}` forgets it."
            )
        self._agrees(former)  # what it lacks is queued by the switch
        self._catalog.switch_index(name, IndexRole.PREVIOUS)
        self._index.point_to(name, former.active_index)
        return self._catalog.collection(name)

    def prune(self, name: str) -> str | None:
        """Drops the index that is kept for a roll-back; its name, when there was one."""
        self._catalog.collection(name)
        dropped = self._catalog.discard_index(name, IndexRole.PREVIOUS)
        self._remove_unneeded()
        return dropped

    def _is_outdated(self, index: str) -> bool:
        """Whether a new index of the same kind can be searched by words, or survive a node, where this one cannot."""
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
                f"Another index of {building.name!r} is half built, with {differing}. Go on with that model and "
                "without options, or add --restart to drop it."
            )
        require_same_model(building, self._embedder)
        if not self._index.exists(building.active_index):  # a crash before it was made, or Qdrant was emptied
            self._catalog.forget_indexed(building.active_index)
            create_index(self._index, building)
        return building

    def _catch_up(self, target: Collection, report: ReindexReport, tell: Callable[[int, int], None]) -> None:
        """One pass over the documents whose present revision the new index lacks."""
        name, index, after = target.name, target.active_index, ""
        total = self._catalog.counted_collection(name).document_count
        done = total - self._catalog.count_unindexed(name, index)
        tell(done, total)
        while page := self._catalog.unindexed_documents(name, index, after=after, limit=self._page):
            for together in self._blocks(page):
                with self._index_documents(together, target) as indexed:
                    for document in together:
                        self._record(document, target, indexed, report)
                        done += 1
                        tell(done, total)
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
            is_recorded = self._catalog.record_indexed(index, document, indexed.of(document.id).chunks)
        except (DocumentError, NotFoundError) as error:  # its file is gone when it was replaced since: the next pass
            report.unreadable[document.uri] = str(error)
            delete_points_of(self._index, index, document.id)
            is_recorded = self._catalog.record_indexed(index, document, [])
        if not is_recorded:
            report.unreadable.pop(document.uri, None)
            try:
                self._catalog.document(document.id)
            except UnknownDocumentError:
                delete_points_of(self._index, index, document.id)

    def _agrees(self, collection: Collection) -> bool:
        """By count. Where it differs, what is too much is deleted and what is missing is noted, to be made again."""
        index = collection.active_index
        if self._index.count(index) == self._catalog.chunk_count(index):
            return True
        for difference in self._consistency.of_index(collection, index):
            log.warning("Mended in the index %s: %s", index, difference)
            self._consistency.mend(
                difference, removes_unmanaged=True
            )  # an index beside the active one has no other writer
        return False

    def _remove_unneeded(self) -> None:
        remove_unneeded(catalog=self._catalog, index=self._index, blobs=self._blobs)


def _same_contract(one: Collection, other: Collection) -> bool:
    return all(getattr(one, field) == getattr(other, field) for field in CONTRACT)
