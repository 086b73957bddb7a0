"""Lists of documents over HTTP: filtered by title and state, counted; the chunks and latest job of one document."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.api.paging import PAGE_HEADERS, Limit, ListPage, Offset, note_page
from app.api.schemas import ChunkAnswer, DocumentAnswer, DocumentCountsAnswer, JobAnswer
from app.errors import InputError, NotFoundError
from app.ports.catalog import Catalog
from app.types.documents import Chunk, Document, DocumentState, Job

TextPart = Annotated[
    str,
    Query(max_length=200, description="Case-insensitive substring of the title or URI. Requires `collection`."),
]


def document_list_routes(catalog: Catalog) -> APIRouter:
    """Include these routes before those of single documents; otherwise `counts` is taken for a document id."""
    routes = APIRouter(prefix="/api/v1/documents", tags=["documents"])

    @routes.get("", response_model=list[DocumentAnswer], responses=PAGE_HEADERS)
    def list_documents(
        request: Request,
        response: Response,
        collection: str | None = None,
        state: DocumentState | None = None,
        text: TextPart = "",
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> list[Document]:
        """Lists documents, oldest first. With `text`: documents of the collection that match it, newest first."""
        if text:
            name = _known(catalog, collection)
            counts = catalog.count_documents(name, text=text)
            found = catalog.find_documents(name, text=text, state=state, limit=limit, offset=offset)
        else:
            counts = _counts(catalog, collection)
            found = catalog.documents(collection, state=state, limit=limit, offset=offset)
        total = sum(counts.values()) if state is None else counts[state]
        note_page(request, response, total=total, offset=offset, count=len(found))
        return found

    @routes.get("/counts", response_model=DocumentCountsAnswer)
    def count_documents(collection: str, text: TextPart = "") -> DocumentCountsAnswer:
        """The number of documents of a collection by state."""
        counts = catalog.count_documents(_known(catalog, collection), text=text)
        return DocumentCountsAnswer(total=sum(counts.values()), states=counts)

    @routes.get("/{document_id}/job", response_model=JobAnswer)
    def show_latest_job(document_id: str) -> Job:
        """The latest job of a document."""
        document = catalog.document(document_id)
        job = catalog.latest_jobs([document.id]).get(document.id)
        if job is None:
            raise NotFoundError(f"The document {document_id!r} has no job any more.")
        return job

    @routes.get("/{document_id}/chunks", response_model=list[ChunkAnswer], responses=PAGE_HEADERS)
    def list_chunks(
        request: Request, response: Response, document_id: str, limit: Limit = 100, offset: Offset = 0
    ) -> list[Chunk]:
        """The chunks of a document, with their offsets in its text. Search hits use the same chunk ids."""
        chunks = catalog.chunks(catalog.document(document_id).id)
        return ListPage(request, response, limit, offset).of(chunks)

    return routes


def _known(catalog: Catalog, collection: str | None) -> str:
    """The name of the collection. Raises InputError if none is given, UnknownCollectionError if it does not exist."""
    if collection is None:
        raise InputError("Searching documents by `text` requires a `collection`.")
    return catalog.collection(collection).name


def _counts(catalog: Catalog, collection: str | None) -> dict[DocumentState, int]:
    """Documents by state in one collection, or in all if it is None. An unknown collection counts as empty."""
    names = [each.name for each in catalog.collections()] if collection is None else [collection]
    counted = [catalog.count_documents(name) for name in names]
    return {state: sum(each[state] for each in counted) for state in DocumentState}
