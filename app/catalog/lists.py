"""Catalog queries for lists: documents by name and state, page by page, and their latest jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, func, or_, select

from app.catalog.sessions import CatalogPart
from app.catalog.tables import ChunkRow, CollectionRow, DocumentRow, JobRow, storable
from app.types.documents import Chunk, Document, DocumentState, Job, PageStart


class SqlDocumentLists(CatalogPart):
    def find_documents(
        self, collection: str, *, text: str = "", state: DocumentState | None = None, limit: int = 100, offset: int = 0
    ) -> list[Document]:
        statement = select(DocumentRow).where(*_named(collection, text))
        if state is not None:
            statement = statement.where(DocumentRow.state == state)
        newest = (DocumentRow.created_at.desc(), DocumentRow.id.desc())
        with self._database.reading() as session:
            rows = session.scalars(statement.order_by(*newest).limit(limit).offset(offset))
            return [row.as_document() for row in rows]

    def count_documents(self, collection: str, *, text: str = "") -> dict[DocumentState, int]:
        statement = select(DocumentRow.state, func.count()).where(*_named(collection, text))
        with self._database.reading() as session:
            counted = dict(session.execute(statement.group_by(DocumentRow.state)).tuples().all())
        return {state: counted.get(state, 0) for state in DocumentState}

    def latest_jobs(self, document_ids: Sequence[str]) -> dict[str, Job]:
        statement = (
            select(JobRow).where(JobRow.document_id.in_(document_ids)).order_by(JobRow.created_at, JobRow.fencing_token)
        )
        with self._database.reading() as session:
            return {row.document_id: row.as_job() for row in session.scalars(statement)} if document_ids else {}

    def find_chunk(self, document_id: str, chunk_id: str) -> Chunk | None:
        statement = _active_chunks(select(ChunkRow), document_id).where(ChunkRow.id == chunk_id)
        with self._database.reading() as session:
            row = session.scalar(statement)
            return None if row is None else row.as_chunk()

    def page_starts(self, document_id: str, *, start: int, end: int) -> list[PageStart]:
        first = func.min(ChunkRow.start)
        statement = (
            _active_chunks(select(ChunkRow.page, first), document_id)
            .where(ChunkRow.page.is_not(None))
            .group_by(ChunkRow.page)
            .having(first >= start, first < end)
            .order_by(ChunkRow.page)
        )
        with self._database.reading() as session:
            return [PageStart(*row) for row in session.execute(statement)]


def _active_chunks(statement: Select[*tuple[Any, ...]], document_id: str) -> Select[*tuple[Any, ...]]:
    return (
        statement.join(DocumentRow, DocumentRow.id == ChunkRow.document_id)
        .join(CollectionRow, CollectionRow.name == DocumentRow.collection)
        .where(ChunkRow.document_id == document_id, ChunkRow.index_name == CollectionRow.active_index)
    )


def _named(collection: str, text: str) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [DocumentRow.collection == collection]
    if text:
        part = storable(text)
        conditions.append(
            or_(DocumentRow.title.icontains(part, autoescape=True), DocumentRow.uri.icontains(part, autoescape=True))
        )
    return conditions
