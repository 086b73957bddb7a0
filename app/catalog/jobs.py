"""The ledger of jobs inside an open transaction: enqueue, heartbeat, finish, fail, release, cancel, retry.

On PostgreSQL, transactions lock the document before its job, always in this order, so they cannot deadlock. Every
change that makes a job due notifies idle workers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import exists, or_, select, update
from sqlalchemy.orm import Session, aliased

from app.catalog.notifications import notify
from app.catalog.tables import (
    OPEN_STATES,
    WAITING_STATES,
    CollectionRow,
    DocumentRow,
    JobRow,
    is_open,
    is_running,
)
from app.errors import CollectionPausedError, ConflictError, LeaseLostError, UnknownDocumentError, UnknownJobError
from app.types.documents import MAX_ATTEMPTS, MAX_PAUSES, DocumentState, Job, JobKind, JobPriority, JobState

MAX_PAUSE = timedelta(minutes=1)
MAX_LOST_ATTEMPTS = 9  # a killed worker or engine is usually not the job's fault, so allow several
_CANCELLED = "Ingestion cancelled. Add the document again, or delete it."
_DELETE_CANCELLED = "Deletion cancelled. Add the document again to make it searchable, or delete it."
_STATE_BY_KIND = {JobKind.INGEST: DocumentState.QUEUED, JobKind.DELETE: DocumentState.DELETING}


def lock_document(session: Session, document_id: str) -> DocumentRow | None:
    return session.scalar(select(DocumentRow).where(DocumentRow.id == document_id).with_for_update())


def lock_job(session: Session, job_id: str) -> JobRow | None:
    statement = select(JobRow).where(JobRow.id == job_id).with_for_update()
    return session.scalar(statement.execution_options(populate_existing=True))


def find(session: Session, job_id: str) -> JobRow:
    row = session.get(JobRow, job_id)
    if row is None:
        raise UnknownJobError.of(job_id)
    return row


def open_job(session: Session, document_id: str) -> JobRow | None:
    """The document's queued, running or retrying job; the schema allows one per document."""
    return session.scalar(select(JobRow).where(JobRow.document_id == document_id, is_open).with_for_update())


def open_jobs(session: Session, document_ids: Sequence[str]) -> dict[str, JobRow]:
    """`open_job` for many locked documents, keyed by document id."""
    statement = select(JobRow).where(JobRow.document_id.in_(document_ids), is_open).order_by(JobRow.document_id)
    return {row.document_id: row for row in session.scalars(statement.with_for_update())} if document_ids else {}


def enqueue(
    session: Session,
    document: DocumentRow,
    kind: JobKind,
    now: datetime,
    *,
    priority: JobPriority = JobPriority.BULK,
) -> JobRow:
    """Queue a job for a locked document. Reuses a waiting job of the same kind; supersedes any other open job."""
    present = open_job(session, document.id)
    job = put_in_queue(session, document, kind, now, priority=priority, present=present, created_at=now)
    notify(session)
    session.flush()
    return job


def put_in_queue(
    session: Session,
    document: DocumentRow,
    kind: JobKind,
    now: datetime,
    *,
    priority: JobPriority,
    present: JobRow | None,
    created_at: datetime,
) -> JobRow:
    """`enqueue`, with `present` as the open job; the caller flushes and notifies."""
    document.state, document.error, document.updated_at = _STATE_BY_KIND[kind], None, now
    if present is not None and present.kind is kind and present.state in WAITING_STATES:
        present.priority = present.priority.at_least(priority)
        return _start_over(present, now)
    if present is not None:
        present.state, present.finished_at = JobState.CANCELLED, now
        present.error = "Superseded by a newer request for the same document."
        session.flush()  # the schema allows one open job per document
    return add_job(session, kind, document.collection, document.id, now, priority=priority, created_at=created_at)


def add_job(
    session: Session,
    kind: JobKind,
    collection: str,
    subject_id: str,
    now: datetime,
    *,
    priority: JobPriority,
    created_at: datetime,
) -> JobRow:
    """Add a job for a document or lens index without an open job; the caller flushes and notifies."""
    job = JobRow(
        id=str(uuid4()),
        kind=kind,
        collection=collection,
        document_id=subject_id,
        fencing_token=0,
        priority=priority,
        created_at=created_at,
    )
    session.add(job)
    return _start_over(job, now)


def _start_over(row: JobRow, now: datetime) -> JobRow:
    row.state, row.not_before, row.finished_at, row.error = JobState.QUEUED, now, None, None
    row.attempts, row.pauses, row.progress, row.may_succeed = 0, 0, 0.0, False
    return row


def heartbeat(session: Session, job: Job, until: datetime, progress: float) -> None:
    check_lease(session, job)
    changed = session.execute(
        update(JobRow)
        .where(JobRow.id == job.id, JobRow.fencing_token == job.fencing_token, is_running)
        .values(lease_until=until, progress=progress)
        .returning(JobRow.id)
    ).first()
    if changed is None:  # the lease was lost after the check
        raise lease_lost(job)


def check_lease(session: Session, job: Job) -> None:
    is_paused = session.scalar(
        select(CollectionRow.is_paused)
        .join(JobRow, JobRow.collection == CollectionRow.name)
        .where(JobRow.id == job.id, JobRow.fencing_token == job.fencing_token, is_running)
    )
    if is_paused is None:
        raise lease_lost(job)
    if is_paused:
        raise CollectionPausedError(f"Job {job.id} returns to the queue: the collection {job.collection!r} is paused.")


def hold(session: Session, job: Job) -> tuple[DocumentRow, JobRow]:
    """Lock the document and its job; raise unless the caller still holds the lease."""
    held = hold_those_left(session, [job])
    if not held:
        raise lease_lost(job)
    return held[0]


def hold_those_left(session: Session, claimed: Collection[Job]) -> list[tuple[DocumentRow, JobRow]]:
    """`hold` for many jobs; leaves out jobs with a lost lease."""
    tokens = {job.id: job.fencing_token for job in claimed}
    ids = [job.document_id for job in claimed]
    documents = select(DocumentRow).where(DocumentRow.id.in_(ids)).order_by(DocumentRow.id).with_for_update()
    document_rows = {row.id: row for row in session.scalars(documents)}
    locked = select(JobRow).where(JobRow.id.in_(tokens)).order_by(JobRow.document_id).with_for_update()
    rows = session.scalars(locked.execution_options(populate_existing=True))
    return [
        (document_rows[row.document_id], row)
        for row in rows
        if row.document_id in document_rows and row.fencing_token == tokens[row.id] and row.state is JobState.RUNNING
    ]


def hold_alone(session: Session, job: Job) -> JobRow:
    """`hold` for a job without a document."""
    row = lock_job(session, job.id)
    if row is None or row.fencing_token != job.fencing_token or row.state is not JobState.RUNNING:
        raise lease_lost(job)
    return row


def finish(row: JobRow, now: datetime) -> None:
    row.state, row.finished_at, row.progress, row.error = JobState.DONE, now, 1.0, None
    row.lease_owner, row.lease_until = None, None


def fail(
    session: Session, job: Job, reason: str, retry_in: timedelta | None, now: datetime, *, may_succeed: bool = False
) -> None:
    document, row = (None, hold_alone(session, job)) if job.kind is JobKind.LENS_INDEX else hold(session, job)
    row.may_succeed = may_succeed
    if retry_in is None or row.attempts >= MAX_ATTEMPTS:
        bury(document, row, reason, now)
        return
    row.state, row.error, row.not_before = JobState.FAILED, reason, now + retry_in
    row.lease_owner, row.lease_until = None, None
    if document is not None:
        document.error, document.updated_at = reason, now


def release(session: Session, job: Job, reason: str | None, now: datetime, *, is_suspect: bool = False) -> None:
    document, row = lock_document(session, job.document_id), lock_job(session, job.id)
    if row is None or row.fencing_token != job.fencing_token:
        return  # another worker has it
    was_cancelled = row.state is not JobState.RUNNING
    row.lease_owner, row.lease_until = None, None
    if was_cancelled or reason is None:
        notify(session)
    if was_cancelled:
        return  # the document is free for its next job
    row.state, row.attempts, row.not_before = JobState.QUEUED, row.attempts - (not is_suspect), now
    if reason is None:
        return
    row.pauses += 1
    row.error, row.not_before = reason, now + min(MAX_PAUSE, timedelta(seconds=2 ** min(row.pauses, 10)))
    if row.pauses >= MAX_PAUSES:
        bury(document, row, reason, now)
    elif is_suspect and row.attempts >= MAX_LOST_ATTEMPTS:
        bury(
            document,
            row,
            f"The vector index stopped answering during each of {row.attempts} writes of the document.",
            now,
        )


def cancel(session: Session, job_id: str, now: datetime) -> JobRow:
    document, row = lock_document(session, find(session, job_id).document_id), lock_job(session, job_id)
    if row is None:
        raise UnknownJobError(f"Job {job_id} was removed with its collection.")
    if row.state is JobState.CANCELLED:
        return row
    if row.state not in OPEN_STATES:
        raise ConflictError(f"Job {job_id} is {row.state}: only a queued, failed or running job can be cancelled.")
    row.state, row.finished_at = JobState.CANCELLED, now
    if document is not None:
        document.state, document.updated_at = DocumentState.FAILED, now
        document.error = _CANCELLED if row.kind is JobKind.INGEST else _DELETE_CANCELLED
    return row


def retry(session: Session, job_id: str, now: datetime) -> JobRow:
    document, row = lock_document(session, find(session, job_id).document_id), lock_job(session, job_id)
    is_of_lens = row is not None and row.kind is JobKind.LENS_INDEX
    if row is None or (document is None and not is_of_lens):
        raise UnknownDocumentError(f"The document of job {job_id} no longer exists: add it again.")
    if row.state in (JobState.RUNNING, JobState.DONE):
        raise ConflictError(
            f"Job {job_id} is {row.state}: only a queued, failed, cancelled or dead job can be retried."
        )
    present = open_job(session, row.document_id)
    if present is not None and present.id != job_id:
        raise ConflictError(f"Job {job_id} was superseded: job {present.id} of the same document is {present.state}.")
    if document is not None:
        document.state, document.error, document.updated_at = _STATE_BY_KIND[row.kind], None, now
    notify(session)
    return _start_over(row, now)


def dead_ids(session: Session, collection: str | None) -> list[str]:
    """Dead jobs worth retrying: their document or lens index still exists and has no newer job."""
    newer = aliased(JobRow)
    statement = (
        select(JobRow.id)
        .outerjoin(DocumentRow, DocumentRow.id == JobRow.document_id)
        .where(JobRow.state == JobState.DEAD)
        .where(or_(DocumentRow.id.is_not(None), JobRow.kind == JobKind.LENS_INDEX))
        .where(~exists().where(newer.document_id == JobRow.document_id, newer.created_at > JobRow.created_at))
        .order_by(JobRow.document_id)  # the same lock order as everywhere
    )
    if collection is not None:
        statement = statement.where(JobRow.collection == collection)
    return list(session.scalars(statement))


def bury(document: DocumentRow | None, row: JobRow, reason: str, now: datetime) -> None:
    row.state, row.error, row.finished_at = JobState.DEAD, reason, now
    row.lease_owner, row.lease_until = None, None
    if document is None:
        return
    document.error, document.updated_at = reason, now
    if row.kind is JobKind.INGEST:  # a failed deletion leaves the document marked for deletion
        document.state = DocumentState.FAILED


def lease_lost(job: Job) -> LeaseLostError:
    return LeaseLostError(f"Job {job.id} was cancelled or taken over after its claim no. {job.fencing_token}.")
