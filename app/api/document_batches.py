"""Many documents at once over HTTP: delete, restore what is being deleted, move to another collection."""

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
        """Queues their deletion. No search shows them from now on; with `delay_s` they can be restored meanwhile."""
        found = [catalog.document(each).id for each in asked.document_ids]  # an unknown id deletes none of them
        return [library.delete_document(each, delay=timedelta(seconds=asked.delay_s)) for each in found]

    @routes.post("/restore", status_code=202, response_model=list[JobAnswer])
    def restore_documents(asked: DocumentIds) -> list[Job]:
        """Calls deletions off that no worker has finished. Their ingestion is queued, which embeds nothing again that
        is still there."""
        found = [catalog.document(each).id for each in asked.document_ids]
        return [library.restore_document(each) for each in found]

    @routes.post("/move", status_code=202, response_model=list[SubmissionAnswer])
    def move_documents(asked: DocumentMove) -> list[Moved]:
        """Ingests the stored files into another collection and deletes the documents where they are: all or none.

        The answer has the new documents, which have ids of their own. Judgements of the former ones go with them.
        """
        return [Moved(*each) for each in library.move_documents(asked.document_ids, asked.collection)]

    return routes
