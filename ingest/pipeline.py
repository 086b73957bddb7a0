"""Runs jobs of the ledger and records their results. A job that was killed at any point is simply run again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.documents.garbage import delete_points_of, discard_file, remove_unneeded
from app.errors import GircseError, LeaseLostError
from app.ports.ledger import Completion, IngestedDocument, Ledger
from app.types.documents import READ_PROGRESS, Collection, Document, Job, JobKind
from ingest.indexer import DocumentIndexer, Heartbeat
from ingest.points import IngestReport


@dataclass(kw_only=True, eq=False)
class IngestPipeline(DocumentIndexer):
    """Runs jobs: ingestion and deletion of documents, and builds of lens indexes. Thread-safe. Without `complete`,
    saved searches are not notified of new documents."""

    catalog: Ledger
    complete: Completion | None = None

    def run(self, job: Job, *, heartbeat: Heartbeat) -> IngestReport:
        """Runs one job of any kind. Raises DocumentError or another GircseError with a reason that a person can act
        on."""
        if job.kind is JobKind.DELETE:
            return self._delete(job, heartbeat)
        if job.kind is JobKind.LENS_INDEX:
            labelled = self.lens_indexing.build(job, heartbeat=heartbeat)
            self._remove_unneeded()  # labels of its former values
            return IngestReport(labelled=labelled)
        outcome = self.run_block([job], heartbeat=lambda _, progress: heartbeat(progress))[job.id]
        if isinstance(outcome, GircseError):
            raise outcome
        return outcome

    def run_block(
        self, jobs: Sequence[Job], *, heartbeat: Callable[[Job, float], None]
    ) -> dict[str, IngestReport | GircseError]:
        """Ingests documents of one collection together. Returns the report or error of each, by job id.

        A document that cannot be parsed, or whose job is lost, does not stop the others. An exception raised from here
        concerns all of them, or an unknown one: then run the jobs one by one.
        """
        collection = self.catalog.collection(jobs[0].collection)
        documents = self.catalog.shards.documents_of(jobs)
        by_document = {job.document_id: job for job in jobs}

        def beat(document: Document, progress: float) -> None:
            heartbeat(by_document[document.id], progress)

        with self.index_documents(list(documents.values()), collection, heartbeat=beat) as indexed:
            done = {by_document[document_id]: document for document_id, document in indexed.documents.items()}
            completed = self._record(collection, done) if done else set()
        completed_ids = {job.document_id for job in jobs if job.id in completed}
        superseded = [document for document in documents.values() if document.id not in completed_ids]
        self._remove_superseded(collection, superseded)
        if any(documents[job.document_id].revision > 1 for job in done):  # files of their earlier versions
            self._remove_unneeded()
        return {
            job.id: indexed.reports[job.document_id]
            if job.id in completed
            else indexed.left.get(job.document_id) or LeaseLostError(f"Job {job.id} was cancelled or taken over.")
            for job in jobs
        }

    def _remove_superseded(self, collection: Collection, documents: Sequence[Document]) -> None:
        """Deletes points written after the last lookup of a job whose document was deleted or replaced meanwhile."""
        existing = (
            self.catalog.consistency.unqueued_documents([document.id for document in documents]) if documents else {}
        )
        for document in documents:
            if document.id not in existing:
                delete_points_of(self.index, collection.active_index, document.id)
            discard_file(self.blobs, document.content_hash, garbage=self.catalog.garbage)

    def _delete(self, job: Job, heartbeat: Heartbeat) -> IngestReport:
        count = 0
        for name in self.catalog.indexes.names(job.collection):
            heartbeat(READ_PROGRESS)
            count += delete_points_of(self.index, name, job.document_id)
        self.catalog.complete_delete(job)
        self._remove_unneeded()
        return IngestReport(deleted=count)

    def _remove_unneeded(self) -> None:
        remove_unneeded(garbage=self.catalog.garbage, index=self.index, blobs=self.blobs)

    def _record(self, collection: Collection, done: Mapping[Job, IngestedDocument]) -> set[str]:
        return self.complete(collection, done) if self.complete else self.catalog.complete_many(done)
