"""Catalog queries of the consistency check: chunks page by page, the documents that own them, documents without an
open job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from uuid import uuid4

from sqlalchemy import delete, exists, func, or_, select, update

from app.catalog import jobs
from app.catalog.engine import damaged
from app.catalog.sessions import CatalogPart
from app.catalog.tables import ChunkRow, CollectionRow, DocumentRow, IndexedDocumentRow, JobRow, is_open
from app.types.documents import Chunk, Document, DocumentState, JobKind, StoredFile

_PAGE = 1000
_HAS_JOB = exists().where(JobRow.document_id == DocumentRow.id, is_open)
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class SqlConsistency(CatalogPart):
    """Queries of the consistency check."""

    def chunk_pages(self, index: str) -> Iterator[list[Chunk]]:
        """All chunks that the index should hold, ordered by id."""
        after = ""
        while True:
            statement = (
                select(ChunkRow)
                .where(ChunkRow.index_name == index, ChunkRow.id > after)
                .order_by(ChunkRow.id)
                .limit(_PAGE)
            )
            with self._database.reading() as session:
                page = [row.as_chunk() for row in session.scalars(statement)]
            if not page:
                return
            self._require_ids(chunk.id for chunk in page)
            yield page
            after = page[-1].id

    def sample_chunks(self, index: str, *, count: int) -> list[str]:
        """About `count` ids of chunks that the index should hold, spread over the whole index."""
        in_order = select(ChunkRow.id).where(ChunkRow.index_name == index).order_by(ChunkRow.id)
        sampled: set[str] = set()
        with self._database.reading() as session:
            sampled.update(session.scalars(in_order.limit(1)))
            for _ in range(count if sampled else 0):
                # Ids are hashes, so a random UUID falls anywhere among them.
                sampled.update(session.scalars(in_order.where(ChunkRow.id > str(uuid4())).limit(1)))
        self._require_ids(sampled)
        return list(sampled)

    def _require_ids(self, ids: Iterable[str]) -> None:
        """Raises on a malformed id: the vector index would reject it."""
        for chunk_id in ids:
            if not _ID.fullmatch(chunk_id):
                raise damaged(self._database.engine, f"a chunk row has the malformed id {chunk_id!r}")

    def is_at_rest(self, collection: str) -> bool:
        """True if the collection has no open job, so index and catalog should agree."""
        with self._database.reading() as session:
            return session.scalar(select(JobRow.id).where(JobRow.collection == collection, is_open).limit(1)) is None

    def stored_files(self, collection: str) -> Iterator[list[StoredFile]]:
        """Files of all documents that are not being deleted, page by page."""
        columns = (DocumentRow.id, DocumentRow.uri, DocumentRow.content_hash, DocumentRow.byte_count, DocumentRow.state)
        after = ""
        while True:
            statement = (
                select(*columns)
                .where(DocumentRow.collection == collection, DocumentRow.id > after)
                .where(DocumentRow.state != DocumentState.DELETING)
                .order_by(DocumentRow.id)
                .limit(_PAGE)
            )
            with self._database.reading() as session:
                rows = session.execute(statement).tuples().all()
            if not rows:
                return
            yield [StoredFile(*row[:4], is_read=row[4] is DocumentState.READY) for row in rows]
            after = rows[-1][0]

    def chunk_owners(self, index: str, ids: Sequence[str]) -> dict[str, str]:
        """Maps chunk id to document id, for the ids that are chunks of this index."""
        statement = select(ChunkRow.id, ChunkRow.document_id).where(
            ChunkRow.index_name == index, ChunkRow.id.in_(list(ids))
        )
        with self._database.reading() as session:
            return dict(session.execute(statement).tuples().all())

    def chunk_rows(self, index: str, ids: Sequence[str]) -> dict[str, Chunk]:
        """The given chunks of this index by id, without their texts."""
        statement = select(ChunkRow).where(ChunkRow.index_name == index, ChunkRow.id.in_(list(ids)))
        with self._database.reading() as session:
            return {row.id: row.as_chunk() for row in session.scalars(statement)}

    def documents_at_rest(self, ids: Sequence[str]) -> dict[str, Document]:
        """The given documents that are ready and have no open job, so index and catalog should agree on them."""
        is_ready = DocumentRow.state == DocumentState.READY
        statement = select(DocumentRow).where(DocumentRow.id.in_(list(ids)), is_ready, ~_HAS_JOB)
        with self._database.reading() as session:
            return {row.id: row.as_document() for row in session.scalars(statement)}

    def miscounted_documents(self, collection: str, index: str) -> list[str]:
        """Ids of documents at rest whose chunk count or revision in the catalog differs from the rows of the active
        index.
        """
        rows_of_document = (ChunkRow.document_id == DocumentRow.id, ChunkRow.index_name == index)
        counted = select(func.count()).where(*rows_of_document).scalar_subquery()
        held = (
            select(IndexedDocumentRow.revision)
            .where(IndexedDocumentRow.document_id == DocumentRow.id, IndexedDocumentRow.index_name == index)
            .scalar_subquery()
        )
        statement = (
            select(DocumentRow.id)
            .where(DocumentRow.collection == collection, DocumentRow.state == DocumentState.READY, ~_HAS_JOB)
            .where(or_(DocumentRow.chunk_count != counted, DocumentRow.revision != held))
            .order_by(DocumentRow.id)
        )
        with self._database.reading() as session:
            return list(session.scalars(statement))

    def unqueued_documents(self, ids: Sequence[str]) -> dict[str, bool]:
        """Maps each existing id to True if the document has no open job, so index and catalog should agree on it."""
        statement = select(DocumentRow.id, ~_HAS_JOB).where(DocumentRow.id.in_(list(ids)))
        with self._database.reading() as session:
            return {document_id: bool(is_idle) for document_id, is_idle in session.execute(statement).tuples()}

    def queue_again(self, document_id: str) -> bool:
        """Queue ingestion of a ready document, or deletion of a document marked for deletion. False for failed or
        missing documents.
        """
        now = self._database.clock()
        with self._database.writing() as session:
            row = jobs.lock_document(session, document_id)
            if row is None or row.state is DocumentState.FAILED:
                return False
            if jobs.open_job(session, document_id) is None:
                kind = JobKind.DELETE if row.state is DocumentState.DELETING else JobKind.INGEST
                jobs.enqueue(session, row, kind, now)
            return True

    def forget_indexed(self, index: str, *, document_id: str | None = None) -> None:
        """Delete the record of what this index holds, for all documents or for one."""
        with self._database.writing() as session:
            for table in (ChunkRow, IndexedDocumentRow):
                statement = delete(table).where(table.index_name == index)
                if document_id is not None:
                    statement = statement.where(table.document_id == document_id)
                session.execute(statement)
            if document_id is not None:
                active = select(CollectionRow.name).where(CollectionRow.active_index == index).scalar_subquery()
                session.execute(
                    update(DocumentRow)
                    .where(DocumentRow.id == document_id, DocumentRow.collection == active)
                    .values(chunk_count=0)
                )
