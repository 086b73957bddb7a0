"""Submits documents: any number in one transaction, with the same result as submitting them one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import Select, and_, func, or_, select
from sqlalchemy.orm import Session

from app.catalog import garbage, jobs
from app.catalog.notifications import notify
from app.catalog.quotas import require_room
from app.catalog.sessions import CatalogPart, collection_row
from app.catalog.tables import DocumentRow, storable
from app.errors import ConflictError, UnknownDocumentError
from app.types.documents import (
    Document,
    DocumentState,
    GarbageKind,
    Job,
    JobKind,
    JobPriority,
    JobState,
    NewDocument,
    require_short_uri,
)

_LOCK_SPACE = 4711  # namespace of these advisory locks

Submitted = tuple[Document, Job | None]


class Submissions(CatalogPart):
    def submit(
        self, collection: str, document: NewDocument, *, priority: JobPriority = JobPriority.INTERACTIVE
    ) -> Submitted:
        return self.submit_many(collection, [document], priority=priority)[0]

    def submit_many(
        self, collection: str, documents: Sequence[NewDocument], *, priority: JobPriority = JobPriority.BULK
    ) -> list[Submitted]:
        for document in documents:
            require_short_uri(document.uri)
        unchanged = self._unchanged(collection, documents)
        changed = [document for document in documents if storable(document.uri) not in unchanged]
        submitted: list[Submitted] = []
        if changed:
            now = self._database.clock()
            with self._database.writing() as session:
                uris = {storable(document.uri) for document in changed}
                moved = {document.moved_from for document in changed if document.moved_from is not None}
                batch = _Batch(session, collection, priority, now, _concerned(collection, uris, moved))
                submitted = [batch.submit(document) for document in changed]
                batch.finish()
                require_room(session, changed)
        results = iter(submitted)
        return [
            (unchanged[uri], None) if (uri := storable(document.uri)) in unchanged else next(results)
            for document in documents
        ]

    def move_documents(self, document_ids: Sequence[str], collection: str) -> list[Submitted]:
        ids, now = list(dict.fromkeys(document_ids)), self._database.clock()
        with self._database.writing() as session:
            uris = set(session.scalars(select(DocumentRow.uri).where(DocumentRow.id.in_(ids))))
            batch = _Batch(session, collection, JobPriority.INTERACTIVE, now, _concerned(collection, uris, (), ids))
            moved = [batch.move(document_id) for document_id in ids]
            batch.finish()
            return moved

    def _unchanged(self, collection: str, documents: Sequence[NewDocument]) -> dict[str, Document]:
        """Documents that need no change, by URI. Read without a write lock, because usually most are unchanged."""
        by_uri = {storable(document.uri): document for document in documents}
        if len(by_uri) < len(documents) or any(document.moved_from for document in documents):
            return {}  # documents of the batch may depend on each other
        with self._database.reading() as session:
            collection_row(session, collection)
            statement = select(DocumentRow).where(
                DocumentRow.collection == collection,
                DocumentRow.uri.in_(by_uri),
                DocumentRow.state == DocumentState.READY,
            )
            return {row.uri: row.as_document() for row in session.scalars(statement) if _is_same(row, by_uri[row.uri])}


class _Batch:
    """The affected rows, locked in the order of their ids, with their state after each document.

    On PostgreSQL, submissions to one collection wait for each other, because two may contain the same URI.
    """

    def __init__(
        self,
        session: Session,
        collection: str,
        priority: JobPriority,
        now: datetime,
        concerned: Select[DocumentRow],
    ) -> None:
        self._session = session
        self._collection = collection
        self._priority = priority
        self._now = now
        self._count = 0
        self._replaced_files: set[str] = set()
        if session.get_bind().dialect.name == "postgresql":
            session.execute(select(func.pg_advisory_xact_lock(_LOCK_SPACE, func.hashtext(collection))))
        collection_row(session, collection)
        rows = session.scalars(concerned).all()
        self._by_uri = {row.uri: row for row in rows if row.collection == collection}
        self._by_id = {row.id: row for row in rows}
        self._open_jobs = jobs.open_jobs(session, list(self._by_id))

    def submit(self, document: NewDocument) -> Submitted:
        has_moved = self._rename(document)
        row = self._by_uri.get(storable(document.uri))
        if row is None:
            row = self._add(document)
        elif not has_moved and _is_same(row, document):
            if row.state is DocumentState.READY:
                return row.as_document(), None
            present = self._open_jobs.get(row.id)
            if present is not None and present.kind is JobKind.INGEST and present.state is JobState.RUNNING:
                return row.as_document(), present.as_job()
        else:
            self._replaced_files |= {row.content_hash} - {document.content_hash}
            _replace_input(row, document)
            row.revision += 1
        job = jobs.put_in_queue(
            self._session,
            row,
            JobKind.INGEST,
            self._now,
            priority=self._priority,
            present=self._open_jobs.get(row.id),
            created_at=self._next_moment(),
        )
        self._open_jobs[row.id] = job
        return row.as_document(), job.as_job()

    def move(self, document_id: str) -> Submitted:
        row = self._by_id.get(document_id)
        if row is None or row.state is DocumentState.DELETING:
            raise UnknownDocumentError.of(document_id)
        if row.collection == self._collection:
            raise ConflictError(f"{row.uri} is already in the collection {self._collection!r}.")
        present = self._by_uri.get(row.uri)
        if present is not None and present.content_hash != row.content_hash:
            raise ConflictError(
                f"The collection {self._collection!r} already has another document with the URI {row.uri}. "
                "Delete one of them first."
            )
        submitted = self.submit(_submitted_as(row))
        jobs.put_in_queue(
            self._session,
            row,
            JobKind.DELETE,
            self._now,
            priority=self._priority,
            present=self._open_jobs.get(row.id),
            created_at=self._next_moment(),
        )
        return submitted

    def finish(self) -> None:
        garbage.note(self._session, GarbageKind.FILE, self._replaced_files, self._now)
        notify(self._session)
        self._session.flush()

    def _next_moment(self) -> datetime:
        """Distinct timestamps keep the order of the rows within a batch."""
        self._count += 1
        return self._now + timedelta(microseconds=self._count - 1)

    def _rename(self, document: NewDocument) -> bool:
        """Give a moved document its new URI; it keeps its id and points. False if nothing moved."""
        row = None if document.moved_from is None else self._by_id.get(document.moved_from)
        if row is None or storable(document.uri) in self._by_uri:
            return False
        del self._by_uri[row.uri]
        row.uri = storable(document.uri)
        self._by_uri[row.uri] = row
        self._session.flush()  # before another document takes the free URI
        return True

    def _add(self, document: NewDocument) -> DocumentRow:
        row = DocumentRow(
            id=str(uuid4()),
            collection=self._collection,
            uri=storable(document.uri),
            state=DocumentState.QUEUED,
            chunk_count=0,
            revision=1,
            created_at=self._now + timedelta(microseconds=self._count),
            updated_at=self._now,
        )
        _replace_input(row, document)
        self._session.add(row)
        self._by_uri[row.uri] = self._by_id[row.id] = row
        return row


def _concerned(
    collection: str, uris: Iterable[str], moved: Iterable[str], beside: Iterable[str] = ()
) -> Select[DocumentRow]:
    """Rows of the collection with these URIs or ids, and `beside` rows of any collection. Locked in a fixed order,
    so that two moves in opposite directions cannot deadlock.
    """
    of_collection = or_(DocumentRow.uri.in_(uris), DocumentRow.id.in_(moved))
    return (
        select(DocumentRow)
        .where(or_(and_(DocumentRow.collection == collection, of_collection), DocumentRow.id.in_(beside)))
        .order_by(DocumentRow.id)
        .with_for_update()
    )


def _submitted_as(row: DocumentRow) -> NewDocument:
    return NewDocument(
        uri=row.uri,
        title=row.given_title,
        media_type=row.media_type,
        content_hash=row.content_hash,
        byte_count=row.byte_count,
        metadata=row.given_metadata,
    )


def _replace_input(row: DocumentRow, document: NewDocument) -> None:
    title, metadata = storable(document.title), dict(document.metadata)
    row.given_title, row.given_metadata = title, metadata
    row.title, row.document_metadata = title, metadata
    row.media_type, row.content_hash = storable(document.media_type), document.content_hash
    row.byte_count = document.byte_count
    if document.allowance is not None:
        row.added_by = document.allowance.user


def _is_same(row: DocumentRow, document: NewDocument) -> bool:
    given = (row.content_hash, row.media_type, row.given_title, row.given_metadata)
    offered = (storable(document.media_type), storable(document.title), dict(document.metadata))
    return given == (document.content_hash, *offered)
