"""The catalog's view of physical indexes: names, contents, the switch between indexes, garbage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import islice

from sqlalchemy import Select, delete, exists, func, insert, select, update
from sqlalchemy.orm import Session

from app.catalog import garbage, jobs, lens_indexes
from app.catalog.sessions import CatalogPart, collection_row
from app.catalog.tables import (
    ChunkRow,
    CollectionRow,
    DocumentRow,
    IndexedDocumentRow,
    JobRow,
    LensIndexRow,
    StandbyIndexRow,
    is_running,
)
from app.errors import ConflictError
from app.types.documents import (
    CONTRACT,
    Chunk,
    Collection,
    Document,
    DocumentState,
    GarbageKind,
    IndexRole,
    JobKind,
    JobState,
)

_ROWS_PER_INSERT = 1_000


class SqlIndexes(CatalogPart):
    # Names

    def reserve(self, collection: str, *, lease: timedelta) -> str:
        now = self._database.clock()
        with self._database.writing() as session:
            taken = {row.name for row in session.scalars(_standby_rows(collection))}
            row = session.get(CollectionRow, collection)
            taken |= {row.active_index} if row else set()
            name = garbage.next_index(session, collection)
            while name in taken:
                name = garbage.next_index(session, collection)
            garbage.note(session, GarbageKind.INDEX, [name], now + lease)
            return name

    def prolong_reservation(self, index: str, *, lease: timedelta) -> None:
        now = self._database.clock()
        with self._database.writing() as session:
            if not garbage.prolong(session, index, now, now + lease):
                raise ConflictError(f"The reservation of the index {index!r} has expired: start again.")

    def names(self, collection: str) -> list[str]:
        with self._database.reading() as session:
            row = session.get(CollectionRow, collection)
            active = [row.active_index] if row else []
            return active + [standby.name for standby in session.scalars(_standby_rows(collection))]

    def standby(self, collection: str, role: IndexRole) -> Collection | None:
        with self._database.reading() as session:
            row, spare = session.get(CollectionRow, collection), _find_standby(session, collection, role)
            return None if row is None or spare is None else _as_if_active(row, spare)

    # What an index holds

    def add_building(self, target: Collection) -> None:
        with self._database.writing() as session:
            collection_row(session, target.name)
            if _find_standby(session, target.name, IndexRole.BUILDING) is not None:
                raise ConflictError(f"Another index of {target.name!r} is already being built.")
            now = self._database.clock()
            garbage.adopt_index(session, target.active_index, now)
            session.add(_standby_row(target, IndexRole.BUILDING, now))

    def unindexed_documents(self, collection: str, index: str, *, after: str = "", limit: int = 100) -> list[Document]:
        statement = _unindexed(collection, index).where(DocumentRow.id > after).order_by(DocumentRow.id).limit(limit)
        with self._database.reading() as session:
            return [row.as_document() for row in session.scalars(statement)]

    def count_unindexed(self, collection: str, index: str) -> int:
        with self._database.reading() as session:
            return session.scalar(select(func.count()).select_from(_unindexed(collection, index).subquery())) or 0

    def record(self, index: str, document: Document, chunks: Iterable[Chunk]) -> bool:
        with self._database.writing() as session:
            row = jobs.lock_document(session, document.id)
            spare = session.get(StandbyIndexRow, index)
            if row is None or row.revision != document.revision or row.state is DocumentState.DELETING:
                return False
            if spare is None or spare.collection != row.collection:
                raise ConflictError(f"The index {index!r} was discarded meanwhile: start again.")
            write_indexed(session, index, {document.id: document.revision}, {document.id: chunks})
            return True

    def chunk_count(self, index: str) -> int:
        with self._database.reading() as session:
            return session.scalar(select(func.count()).where(ChunkRow.index_name == index)) or 0

    # Switching

    def switch(self, collection: str, role: IndexRole) -> bool:
        now = self._database.clock()
        with self._database.writing() as session:
            # Lock order: documents, then jobs, as everywhere, then lens indexes, and the collection last.
            in_collection = select(DocumentRow.id).where(DocumentRow.collection == collection)
            session.execute(in_collection.order_by(DocumentRow.id).with_for_update())
            lens_indexes.lock(session, collection)
            row = session.get(CollectionRow, collection, with_for_update=True)
            spare = _find_standby(session, collection, role)
            if row is None or spare is None:
                return False
            stale = list(session.scalars(_unindexed(collection, spare.name)))
            if role is IndexRole.BUILDING and stale:
                return False
            former, target = Collection(**row.values()), _as_if_active(row, spare)
            for kept in session.scalars(_standby_rows(collection).where(StandbyIndexRow.role == IndexRole.PREVIOUS)):
                if kept is not spare:
                    _retire(session, kept, now)
            session.delete(spare)
            session.flush()
            session.add(_standby_row(former, IndexRole.PREVIOUS, now))
            for field in (*CONTRACT, "active_index"):
                setattr(row, field, getattr(target, field))
            count_chunks_again(session, collection, target.active_index)
            _start_running_jobs_over(session, collection, now)
            for document in stale:
                if jobs.open_job(session, document.id) is None:
                    jobs.enqueue(session, document, JobKind.INGEST, now)
            lens_indexes.queue_again(session, LensIndexRow.collection == collection, now=now)
            return True

    def discard(self, collection: str, role: IndexRole) -> str | None:
        with self._database.writing() as session:
            spare = _find_standby(session, collection, role)
            if spare is None:
                return None
            _retire(session, spare, self._database.clock())
            return spare.name


def write_indexed(
    session: Session, index: str, revisions: Mapping[str, int], chunks: Mapping[str, Iterable[Chunk]]
) -> Counter[str]:
    """Record that `index` holds these chunks at these document revisions. Returns the number of chunks per document.

    Both mappings are keyed by document id.
    """
    for table in (ChunkRow, IndexedDocumentRow):
        session.execute(delete(table).where(table.document_id.in_(revisions), table.index_name == index))
    counts: Counter[str] = Counter()
    values = (chunk_values(index, chunk) for document_id in revisions for chunk in chunks[document_id])
    while batch := list(islice(values, _ROWS_PER_INSERT)):
        session.execute(insert(ChunkRow), batch)
        counts.update(str(row["document_id"]) for row in batch)
    rows = [
        {"index_name": index, "document_id": document_id, "revision": revision}
        for document_id, revision in revisions.items()
    ]
    session.execute(insert(IndexedDocumentRow), rows)
    return counts


def note_collection(session: Session, row: CollectionRow, now: datetime) -> None:
    """Note the indexes and files of a deleted collection as garbage."""
    standby = [standby.name for standby in session.scalars(_standby_rows(row.name))]
    garbage.note(session, GarbageKind.INDEX, [row.active_index, *standby], now)
    files = session.scalars(select(DocumentRow.content_hash).where(DocumentRow.collection == row.name))
    garbage.note(session, GarbageKind.FILE, files, now)


def chunk_values(index: str, chunk: Chunk) -> dict[str, object]:
    """Column values of a `ChunkRow`."""
    names = ("id", "document_id", "ordinal", "text_hash", "start", "end", "page")
    return {"index_name": index, **{name: getattr(chunk, name) for name in names}}


def _standby_rows(collection: str) -> Select[StandbyIndexRow]:
    return select(StandbyIndexRow).where(StandbyIndexRow.collection == collection).order_by(StandbyIndexRow.name)


def _find_standby(session: Session, collection: str, role: IndexRole) -> StandbyIndexRow | None:
    return session.scalar(_standby_rows(collection).where(StandbyIndexRow.role == role))


def _standby_row(collection: Collection, role: IndexRole, now: datetime) -> StandbyIndexRow:
    contract = {field: getattr(collection, field) for field in CONTRACT}
    return StandbyIndexRow(
        name=collection.active_index, collection=collection.name, role=role, created_at=now, **contract
    )


def _as_if_active(row: CollectionRow, spare: StandbyIndexRow) -> Collection:
    """The collection as if this index were the active one."""
    contract = {field: getattr(spare, field) for field in CONTRACT}
    return Collection(**{**row.values(), **contract, "active_index": spare.name})


def _unindexed(collection: str, index: str) -> Select[DocumentRow]:
    """Documents whose current revision is not in the index."""
    is_held = exists().where(
        IndexedDocumentRow.document_id == DocumentRow.id,
        IndexedDocumentRow.index_name == index,
        IndexedDocumentRow.revision == DocumentRow.revision,
    )
    return select(DocumentRow).where(
        DocumentRow.collection == collection, DocumentRow.state != DocumentState.DELETING, ~is_held
    )


def _retire(session: Session, spare: StandbyIndexRow, now: datetime) -> None:
    garbage.note(session, GarbageKind.INDEX, [spare.name], now)
    _forget_contents(session, spare.name)
    session.delete(spare)
    session.flush()


def _forget_contents(session: Session, index: str) -> None:
    session.execute(delete(ChunkRow).where(ChunkRow.index_name == index))
    session.execute(delete(IndexedDocumentRow).where(IndexedDocumentRow.index_name == index))


def count_chunks_again(session: Session, collection: str, index: str) -> None:
    """Recount the chunks of every document after another index became active."""
    counted = (
        select(func.count())
        .where(ChunkRow.document_id == DocumentRow.id, ChunkRow.index_name == index)
        .scalar_subquery()
    )
    session.execute(
        update(DocumentRow)
        .where(DocumentRow.collection == collection)
        .values(chunk_count=counted)
        .execution_options(synchronize_session=False)
    )


def _start_running_jobs_over(session: Session, collection: str, now: datetime) -> None:
    """Running jobs write to the previously active index. Their workers notice the lost lease at the next heartbeat."""
    session.execute(
        update(JobRow)
        .where(JobRow.collection == collection, JobRow.kind == JobKind.INGEST, is_running)
        .values(state=JobState.QUEUED, not_before=now, attempts=JobRow.attempts - 1, progress=0.0)
        .execution_options(synchronize_session=False)
    )
