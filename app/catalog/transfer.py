"""Reads a collection from the catalog for an archive, and restores one in a single transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.catalog import garbage, jobs
from app.catalog.indexes import chunk_values, count_chunks_again
from app.catalog.judgements import judgement_values
from app.catalog.sessions import CatalogPart
from app.catalog.tables import ChunkRow, CollectionRow, DocumentRow, IndexedDocumentRow, JudgementRow
from app.errors import ConflictError
from app.types.documents import CONTRACT, Chunk, Collection, DocumentRecord, DocumentState, JobKind, Judgement

_PAGE = 500


class SqlTransfer(CatalogPart):
    def document_records(self, collection: str) -> Iterator[list[DocumentRecord]]:
        after = ""
        while True:
            statement = (
                select(DocumentRow)
                .where(DocumentRow.collection == collection, DocumentRow.id > after)
                .where(DocumentRow.state != DocumentState.DELETING)
                .order_by(DocumentRow.id)
                .limit(_PAGE)
            )
            with self._database.reading() as session:
                rows = list(session.scalars(statement))
                page = [DocumentRecord(row.as_document(), row.given_title, row.given_metadata) for row in rows]
            if not page:
                return
            yield page
            after = page[-1].document.id

    def restore_collection(self, collection: Collection, rows: Iterable[DocumentRecord | Chunk | Judgement]) -> None:
        now = self._database.clock()
        contract = {field: getattr(collection, field) for field in (*CONTRACT, "active_index", "is_paused")}
        try:
            with self._database.writing() as session:
                garbage.adopt_index(session, collection.active_index, now)
                session.add(CollectionRow(name=collection.name, created_at=now, **contract))
                session.flush()
                _insert_rows(session, collection, rows)
                count_chunks_again(session, collection.name, collection.active_index)
                waiting = select(DocumentRow).where(
                    DocumentRow.collection == collection.name, DocumentRow.state == DocumentState.QUEUED
                )
                for document in session.scalars(waiting).all():
                    jobs.enqueue(session, document, JobKind.INGEST, now)
        except IntegrityError as error:
            raise ConflictError(
                f"The collection {collection.name!r}, or one of its documents, is already in the catalog; "
                "restore it under another name."
            ) from error


def _insert_rows(session: Session, collection: Collection, rows: Iterable[DocumentRecord | Chunk | Judgement]) -> None:
    index = collection.active_index
    chunks: list[dict[str, object]] = []
    for row in rows:
        if isinstance(row, Chunk):
            chunks.append(chunk_values(index, row))
            if len(chunks) == _PAGE:
                session.execute(insert(ChunkRow), chunks)
                chunks.clear()
            continue
        if isinstance(row, Judgement):
            session.execute(insert(JudgementRow), [judgement_values(row)])
            continue
        session.execute(insert(DocumentRow), [_document_values(row)])
        if row.document.state is DocumentState.READY:
            held = {"document_id": row.document.id, "index_name": index, "revision": row.document.revision}
            session.execute(insert(IndexedDocumentRow), [held])
    if chunks:
        session.execute(insert(ChunkRow), chunks)


def _document_values(record: DocumentRecord) -> dict[str, object]:
    document = record.document
    same = ("id", "collection", "uri", "title", "media_type", "content_hash", "byte_count", "state", "error")
    return {
        **{name: getattr(document, name) for name in (*same, "created_at", "updated_at", "revision")},
        "document_metadata": dict(document.metadata),
        "given_title": record.given_title,
        "given_metadata": dict(record.given_metadata),
        "chunk_count": 0,
    }
