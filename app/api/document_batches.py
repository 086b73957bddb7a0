"""Batch operations on documents over HTTP: delete, undo pending deletions, move to another collection."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from fastapi import APIRouter

from app.access.authorized_services import AuthorizedServices
from app.api.schemas import DocumentDeletion, DocumentIds, DocumentMove, JobAnswer, SubmissionAnswer
from app.types.documents import Document, Job


@dataclass(frozen=True, slots=True)
class Moved:
    document: Document
    job: Job | None


def document_batch_routes(services: AuthorizedServices) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/documents", tags=["documents"])
    library, catalog = services.library, services.catalog

    @routes.post("/delete", status_code=202, response_model=list[JobAnswer])
    def delete_documents(asked: DocumentDeletion) -> list[Job]:
        """Queues the deletion of documents and hides them from searches at once.

        They can be restored until a worker has deleted them, which happens after `delay_s`. If one id is unknown,
        nothing is deleted.
        """
        found = [catalog.document(each).id for each in asked.document_ids]  # raises for an unknown id
        return [library.delete_document(each, delay=timedelta(seconds=asked.delay_s)) for each in found]

    @routes.post("/restore", status_code=202, response_model=list[JobAnswer])
    def restore_documents(asked: DocumentIds) -> list[Job]:
        """Cancels deletions that no worker has finished and queues ingestion of the documents.

        Chunks that are still stored are not embedded again.
        """
        found = [catalog.document(each).id for each in asked.document_ids]
        return [catalog.restore_document(each) for each in found]

    @routes.post("/move", status_code=202, response_model=list[SubmissionAnswer])
    def move_documents(move: DocumentMove) -> list[Moved]:
        """Ingests the stored files into another collection and deletes the old documents: all of them or none.

        Returns the new documents, which have new ids. Judgements of the old documents are deleted with them.
        """
        return [Moved(document, job) for document, job in library.move_documents(move.document_ids, move.collection)]

    return routes
