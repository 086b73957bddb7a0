"""SqlCatalog: the Catalog port over SQLite or PostgreSQL. Each public method is one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from app.catalog import garbage, jobs
from app.catalog.access import SqlAccess
from app.catalog.consistency import SqlConsistency
from app.catalog.facets import SqlFacets
from app.catalog.garbage import SqlGarbage
from app.catalog.idempotency import SqlIdempotency
from app.catalog.indexes import SqlIndexes, note_collection, write_indexed
from app.catalog.judgements import SqlLensesAndJudgements
from app.catalog.ledger import SqlJobs
from app.catalog.lens_indexes import SqlLensIndexes
from app.catalog.lists import SqlDocumentLists
from app.catalog.recurring_sources import SqlSources
from app.catalog.schema_version import require_known
from app.catalog.searches import SqlSearches
from app.catalog.sessions import Database, add_unless_taken, collection_row, unknown_collection
from app.catalog.shards import SqlShards
from app.catalog.standing import SqlStanding, tell
from app.catalog.standing_deliveries import SqlDeliveries
from app.catalog.submissions import Submissions
from app.catalog.tables import ChunkRow, CollectionRow, DocumentRow
from app.catalog.transfer import SqlTransfer
from app.catalog.weights import SqlWeights
from app.errors import CatalogUnavailableError, ConflictError, UnknownDocumentError
from app.ports.ledger import IngestedDocument
from app.types.documents import (
    CONTRACT,
    Chunk,
    Collection,
    CountedCollection,
    Document,
    DocumentKey,
    DocumentState,
    GarbageKind,
    Job,
    JobKind,
    JobPriority,
    JobState,
    Metadata,
    utc_now,
)
from app.types.standing import Told

log = logging.getLogger(__name__)


class SqlCatalog(
    SqlJobs,
    SqlDocumentLists,
    SqlFacets,
    SqlLensesAndJudgements,
    Submissions,
):
    def __init__(self, engine: Engine, *, clock: Callable[[], datetime] = utc_now) -> None:
        self.database = database = Database(engine, clock=clock)
        super().__init__(database)
        self.access = SqlAccess(database)
        self.consistency = SqlConsistency(database)
        self.deliveries = SqlDeliveries(database)
        self.garbage = SqlGarbage(database)
        self.idempotency = SqlIdempotency(database)
        self.indexes = SqlIndexes(database)
        self.lens_indexes = SqlLensIndexes(database)
        self.searches = SqlSearches(database)
        self.shards = SqlShards(database)
        self.sources = SqlSources(database)
        self.standing = SqlStanding(database)
        self.transfer = SqlTransfer(database)
        self.weights = SqlWeights(database)

    # Collections

    def create_collection(self, collection: Collection) -> Collection:
        with self._database.writing() as session:
            row = session.get(CollectionRow, collection.name)
            if row is None:
                row = CollectionRow(
                    name=collection.name,
                    active_index=collection.active_index,
                    is_paused=collection.is_paused,
                    created_at=self._database.clock(),
                    **{field: getattr(collection, field) for field in CONTRACT},
                )
                if add_unless_taken(session, row):
                    if row.active_index in garbage.of_kind(session, GarbageKind.INDEX):
                        garbage.adopt_index(session, row.active_index, self._database.clock())
                    return Collection(**row.values())
                row = session.get_one(CollectionRow, collection.name)
            differing = [field for field in CONTRACT if getattr(row, field) != getattr(collection, field)]
            if differing:
                pairs = ", ".join(f"{f} is {getattr(row, f)!r}, not {getattr(collection, f)!r}" for f in differing)
                raise ConflictError(
                    f"The collection {collection.name!r} already exists with a different contract: {pairs}. "
                    "Choose another name, or delete the collection and ingest it again."
                )
        return self.collection(collection.name)

    def collection(self, name: str) -> Collection:
        with self._database.reading() as session:
            row = collection_row(session, name)
            return Collection(**row.values())

    def created_at(self, name: str) -> datetime:
        with self._database.reading() as session:
            return collection_row(session, name).created_at

    def counted_collection(self, name: str) -> CountedCollection:
        with self._database.reading() as session:
            counted = self._counted_collections(session, name)
            if not counted:
                raise unknown_collection(session, name)
            return counted[0]

    def uncounted_collections(self) -> list[Collection]:
        with self._database.reading() as session:
            rows = session.scalars(select(CollectionRow).order_by(CollectionRow.name))
            return [Collection(**row.values()) for row in rows]

    def collections(self) -> list[CountedCollection]:
        with self._database.reading() as session:
            return self._counted_collections(session)

    @staticmethod
    def _counted_collections(session: Session, name: str | None = None) -> list[CountedCollection]:
        chunk_count = func.coalesce(func.sum(DocumentRow.chunk_count), 0)
        statement = (
            select(CollectionRow, func.count(DocumentRow.id), chunk_count)
            .outerjoin(DocumentRow, DocumentRow.collection == CollectionRow.name)
            .group_by(CollectionRow.name)
            .order_by(CollectionRow.name)
        )
        if name is not None:
            statement = statement.where(CollectionRow.name == name)
        return [
            CountedCollection(**row.values(), document_count=documents, chunk_count=int(chunks))
            for row, documents, chunks in session.execute(statement)
        ]

    def delete_collection(self, name: str) -> None:
        with self._database.writing() as session:
            row = collection_row(session, name)
            note_collection(session, row, self._database.clock())
            session.delete(row)  # cascades to documents, chunks and jobs; a running job then loses its lease

    # Documents

    def submit_delete(self, document_id: str, *, delay: timedelta = timedelta()) -> Job:
        now = self._database.clock()
        with self._database.writing() as session:
            row = jobs.lock_document(session, document_id)
            if row is None:
                raise _unknown_document(document_id)
            present = jobs.open_job(session, document_id)
            if present is not None and present.kind is JobKind.DELETE and present.state is JobState.RUNNING:
                return present.as_job()
            job = jobs.enqueue(session, row, JobKind.DELETE, now, priority=JobPriority.INTERACTIVE)
            job.not_before = now + delay
            return job.as_job()

    def restore_document(self, document_id: str) -> Job:
        with self._database.writing() as session:
            row = jobs.lock_document(session, document_id)
            if row is None:
                raise _unknown_document(document_id)
            if row.state is not DocumentState.DELETING:
                raise ConflictError(f"The document {document_id} is {row.state}: it has no deletion to cancel.")
            # Ingest again: a worker may already have deleted some of its points. Existing ones are kept.
            return jobs.enqueue(
                session, row, JobKind.INGEST, self._database.clock(), priority=JobPriority.INTERACTIVE
            ).as_job()

    def deleted_among(self, document_ids: Iterable[str]) -> set[str]:
        ids = set(document_ids)
        statement = select(DocumentRow.id).where(DocumentRow.id.in_(ids), DocumentRow.state == DocumentState.DELETING)
        with self._database.reading() as session:
            return set(session.scalars(statement)) if ids else set()

    def document(self, document_id: str) -> Document:
        with self._database.reading() as session:
            row = session.get(DocumentRow, document_id)
            if row is None:
                raise _unknown_document(document_id)
            return row.as_document()

    def documents(
        self, collection: str | None = None, *, state: DocumentState | None = None, limit: int = 100, offset: int = 0
    ) -> list[Document]:
        statement = select(DocumentRow).order_by(DocumentRow.created_at, DocumentRow.id).limit(limit).offset(offset)
        if collection is not None:
            statement = statement.where(DocumentRow.collection == collection)
        if state is not None:
            statement = statement.where(DocumentRow.state == state)
        with self._database.reading() as session:
            return [row.as_document() for row in session.scalars(statement)]

    def document_keys(self, collection: str, *, uri_prefix: str) -> list[DocumentKey]:
        statement = (
            select(DocumentRow.id, DocumentRow.uri, DocumentRow.content_hash)
            # LIKE would ignore case on SQLite.
            .where(DocumentRow.collection == collection, func.substr(DocumentRow.uri, 1, len(uri_prefix)) == uri_prefix)
            .order_by(DocumentRow.uri, DocumentRow.id)
        )
        with self._database.reading() as session:
            return [DocumentKey(*row) for row in session.execute(statement)]

    def chunks(self, document_id: str) -> list[Chunk]:
        statement = (
            select(ChunkRow)
            .join(DocumentRow, DocumentRow.id == ChunkRow.document_id)
            .join(CollectionRow, CollectionRow.name == DocumentRow.collection)
            .where(ChunkRow.document_id == document_id, ChunkRow.index_name == CollectionRow.active_index)
            .order_by(ChunkRow.ordinal)
        )
        with self._database.reading() as session:
            return [row.as_chunk() for row in session.scalars(statement)]

    def complete_ingest(self, job: Job, *, title: str, metadata: Metadata, chunks: Iterable[Chunk]) -> None:
        done = IngestedDocument(title, metadata, chunks)
        if not self.complete_many({job: done}):
            raise jobs.lease_lost(job)

    def complete_many(self, done: Mapping[Job, IngestedDocument], *, told: Told | None = None) -> set[str]:
        now = self._database.clock()
        with self._database.writing() as session:
            held = jobs.hold_those_left(session, done)
            if held:
                active = session.get_one(CollectionRow, held[0][0].collection).active_index
                ingested = {job.id: document for job, document in done.items()}
                chunks = {document.id: ingested[row.id].chunks for document, row in held}
                counts = write_indexed(session, active, {row.id: row.revision for row, _ in held}, chunks)
                for document, row in held:
                    _mark_ready(document, ingested[row.id], counts[document.id], now)
                    jobs.finish(row, now)
                tell(session, [document for document, _ in held], active, told, now)
            return {row.id for _, row in held}

    def complete_delete(self, job: Job) -> None:
        with self._database.writing() as session:
            document, row = jobs.hold(session, job)
            garbage.note(session, GarbageKind.FILE, [document.content_hash], self._database.clock())
            session.delete(document)  # cascades to its chunks
            jobs.finish(row, self._database.clock())

    def is_alive(self) -> bool:
        try:
            with self._database.reading() as session:
                session.execute(select(func.count()).select_from(CollectionRow))
                require_known(session.connection())
        except CatalogUnavailableError as error:
            log.info("The catalog cannot be used: %s", error)
            return False
        return True


def _mark_ready(row: DocumentRow, ingested: IngestedDocument, chunk_count: int, now: datetime) -> None:
    row.title, row.document_metadata, row.chunk_count = ingested.title, dict(ingested.metadata), chunk_count
    row.state, row.error, row.updated_at = DocumentState.READY, None, now


def _unknown_document(document_id: str) -> UnknownDocumentError:
    return UnknownDocumentError.of(document_id)
