"""The ledger of jobs inside an open transaction: enqueue, claim, heartbeat, finish, fail, release, cancel, retry.

On PostgreSQL rows are locked in one order, the document before its job, so that transactions never deadlock.
Every change that makes a job due notifies idle workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import and_, bindparam, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from app.catalog.notifications import notify
from app.catalog.tables import (
    OPEN_STATES,
    WAITING_STATES,
    CollectionRow,
    DocumentRow,
    JobRow,
    UtcDateTime,
    is_open,
    is_running,
    is_waiting,
)
from app.errors import CollectionPausedError, ConflictError, LeaseLostError, UnknownDocumentError, UnknownJobError
from app.types.documents import DocumentState, Job, JobKind, JobPriority, JobState

MAX_ATTEMPTS = 5
MAX_LOST_ATTEMPTS = 9  # of a job whose workers were killed: usually the job is not the cause
MAX_PAUSE = timedelta(minutes=1)
_WINDOW = 8  # jobs that are looked through for each small one that is wanted
MAX_PAUSES = 1440  # about a day of pauses of a minute each
_CANCELLED = "Its ingestion was cancelled. Add it again, or delete it."
_DELETE_CANCELLED = "Its deletion was cancelled. Add it again to make it searchable, or delete it."
_STATE_BY_KIND = {JobKind.INGEST: DocumentState.QUEUED, JobKind.DELETE: DocumentState.DELETING}

# Built once: a claim is made for every document. Each takes a look into an index, however many jobs wait.
_NOW = bindparam("now", type_=UtcDateTime())
_other = aliased(JobRow)
_is_document_free = ~exists().where(_other.document_id == JobRow.document_id, _other.lease_until > _NOW)
_is_due = and_(is_waiting, JobRow.priority == bindparam("priority"), JobRow.not_before <= _NOW)
_is_abandoned = and_(is_running, JobRow.lease_until <= _NOW)
_is_paused = exists().where(CollectionRow.name == JobRow.collection, CollectionRow.is_paused)
_ABANDONED = (
    select(JobRow)
    .where(_is_abandoned, JobRow.attempts < MAX_LOST_ATTEMPTS, ~_is_paused, _is_document_free)
    .order_by(JobRow.lease_until)
    .limit(1)
    .with_for_update(skip_locked=True, of=JobRow)
)
_EXHAUSTED = select(JobRow).where(_is_abandoned, JobRow.attempts >= MAX_LOST_ATTEMPTS).limit(1)
_in_collection = JobRow.collection == bindparam("collection")
_in_turn = (JobRow.not_before, JobRow.created_at, JobRow.id)
_DUE = (
    select(JobRow)
    .where(_is_due, _in_collection, _is_document_free)
    .order_by(*_in_turn)
    .limit(1)
    .with_for_update(skip_locked=True, of=JobRow)
)
_ABANDONED_IDS = (
    select(JobRow.id)
    .where(_is_abandoned, JobRow.priority == bindparam("priority"), _in_collection)
    .order_by(JobRow.lease_until)
)
_DUE_IDS = select(JobRow.id).where(_is_due, _in_collection).order_by(*_in_turn)
# Not grouped by the database: SQLite would read every job in the order of collections for it.
_RUNNING = select(JobRow.collection).where(is_running, JobRow.lease_until > _NOW)
_last_claim = select(func.max(JobRow.claimed_at)).where(JobRow.collection == CollectionRow.name).scalar_subquery()
_COLLECTIONS_WITH_WORK = (
    select(CollectionRow.name)
    .where(~CollectionRow.is_paused, exists().where(_is_due, JobRow.collection == CollectionRow.name))
    .order_by(_last_claim.nulls_first(), CollectionRow.name)
)


def lock_document(session: Session, document_id: str) -> DocumentRow | None:
    return session.scalar(select(DocumentRow).where(DocumentRow.id == document_id).with_for_update())


def _lock_job(session: Session, job_id: str) -> JobRow | None:
    statement = select(JobRow).where(JobRow.id == job_id).with_for_update()
    return session.scalar(statement.execution_options(populate_existing=True))


def find(session: Session, job_id: str) -> JobRow:
    row = session.get(JobRow, job_id)
    if row is None:
        raise UnknownJobError.of(job_id)
    return row


def open_job(session: Session, document_id: str) -> JobRow | None:
    """The job that is queued, running or waiting for its next attempt; the schema allows one per document."""
    return session.scalar(select(JobRow).where(JobRow.document_id == document_id, is_open).with_for_update())


def open_jobs(session: Session, document_ids: Sequence[str]) -> dict[str, JobRow]:
    """The same of many locked documents, by document."""
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
    """A queued job for a locked document. A waiting job of this kind is used again, any other one is superseded."""
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
    """What `enqueue` does, of which `present` is the open job; the caller flushes and notifies."""
    document.state, document.error, document.updated_at = _STATE_BY_KIND[kind], None, now
    if present is not None and present.kind is kind and present.state in WAITING_STATES:
        if priority is JobPriority.INTERACTIVE:
            present.priority = priority
        return _start_over(present, now)
    if present is not None:
        present.state, present.finished_at = JobState.CANCELLED, now
        present.error = "Superseded by a newer request for the same document."
        session.flush()  # the schema allows one open job per document
    job = JobRow(
        id=str(uuid4()),
        kind=kind,
        collection=document.collection,
        document_id=document.id,
        fencing_token=0,
        priority=priority,
        created_at=created_at,
    )
    session.add(job)
    return _start_over(job, now)


def _start_over(row: JobRow, now: datetime) -> JobRow:
    row.state, row.not_before, row.finished_at, row.error = JobState.QUEUED, now, None, None
    row.attempts, row.pauses, row.progress = 0, 0, 0.0
    return row


def claim(session: Session, owner: str, lease: timedelta, now: datetime) -> JobRow | None:
    row = session.scalar(_ABANDONED, {"now": now}) or _take_turn(session, now)
    if row is None:
        return None
    _take(row, owner, lease, now)
    return row


def claim_shard(
    session: Session, owner: str, collection: str, limit: int, lease: timedelta, now: datetime
) -> list[JobRow]:
    """As `claim`, many of one collection. One that was claimed like this before and never begun was not attempted."""
    of_collection = {"now": now, "collection": collection}
    abandoned = _ABANDONED.where(JobRow.collection == collection).limit(limit)
    rows = list(session.scalars(abandoned, {"now": now}))
    untouched = {row.id for row in rows if row.progress == 0}
    paused = session.scalar(select(CollectionRow.is_paused).where(CollectionRow.name == collection))
    for priority in () if paused else JobPriority:
        due = _DUE.limit(limit - len(rows))
        rows += session.scalars(due, {**of_collection, "priority": priority}) if len(rows) < limit else ()
    for row in rows:
        _take(row, owner, lease, now)
        row.attempts -= row.id in untouched
    return rows


def claim_batch(
    session: Session,
    job: Job,
    owner: str,
    *,
    limit: int,
    max_bytes: int,
    max_attempts: int,
    lease: timedelta,
    now: datetime,
) -> list[JobRow]:
    first = session.get(DocumentRow, job.document_id)
    paused = session.scalar(select(CollectionRow.is_paused).where(CollectionRow.name == job.collection))
    if first is None or paused or first.byte_count > max_bytes:
        return []
    known = {"now": now, "priority": job.priority, "collection": job.collection}
    small = [DocumentRow.byte_count <= max_bytes, JobRow.attempts < max_attempts, JobRow.kind == JobKind.INGEST]
    rows: list[JobRow] = []
    for ids in (_ABANDONED_IDS, _DUE_IDS):
        # A window of the queue: among many large documents the next small one may be far.
        window = [row.id for row in session.execute(ids.limit(_WINDOW * limit), known)]
        statement = select(JobRow).join(DocumentRow, DocumentRow.id == JobRow.document_id)
        statement = statement.where(JobRow.id.in_(window), or_(is_waiting, _is_abandoned), _is_document_free, *small)
        statement = statement.order_by(*_in_turn).limit(limit - len(rows))
        rows += session.scalars(statement.with_for_update(skip_locked=True, of=JobRow), known) if window else ()
    for row in rows:
        _take(row, owner, lease, now)
    return rows


def _take(row: JobRow, owner: str, lease: timedelta, now: datetime) -> None:
    row.state, row.lease_owner, row.lease_until = JobState.RUNNING, owner, now + lease
    row.claimed_at = now
    row.attempts += 1
    row.fencing_token += 1


def _take_turn(session: Session, now: datetime) -> JobRow | None:
    """A job of the highest priority that any is due of, from the collection whose turn it is.

    Claims at the same moment may see the same turn; the next ones make up for it.
    """
    for priority in JobPriority:
        due = {"now": now, "priority": priority}
        collections = session.scalars(_COLLECTIONS_WITH_WORK, due).all()
        if not collections:
            continue
        running = Counter(session.scalars(_RUNNING, {"now": now}))
        for collection in sorted(collections, key=running.__getitem__):  # stable: the oldest last claim comes first
            row = session.scalar(_DUE, {**due, "collection": collection})
            if row is not None:  # else other workers have just taken the last ones
                return row
    return None


def bury_abandoned(session: Session, now: datetime) -> None:
    """Gives up one job whose workers died with it again and again: it would kill the next one too."""
    exhausted = session.scalar(_EXHAUSTED, {"now": now})
    if exhausted is None:
        return
    document, row = lock_document(session, exhausted.document_id), _lock_job(session, exhausted.id)
    if row is None or row.state is not JobState.RUNNING or row.lease_until is None or row.lease_until > now:
        return  # another worker was quicker
    reason = f"Every worker that took it stopped in the middle ({row.attempts} times): out of memory, or killed."
    _bury(document, row, reason, now)


def heartbeat(session: Session, job: Job, until: datetime, progress: float) -> None:
    check_lease(session, job)
    changed = session.execute(
        update(JobRow)
        .where(JobRow.id == job.id, JobRow.fencing_token == job.fencing_token, is_running)
        .values(lease_until=until, progress=progress)
        .returning(JobRow.id)
    ).first()
    if changed is None:  # since it was checked
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
        raise CollectionPausedError(f"Job {job.id} is given back: the collection {job.collection!r} is paused.")


def hold(session: Session, job: Job) -> tuple[DocumentRow, JobRow]:
    """Locks the document and its job, and makes sure that the caller still holds the lease."""
    held = hold_those_left(session, [job])
    if not held:
        raise lease_lost(job)
    return held[0]


def hold_those_left(session: Session, claimed: Collection[Job]) -> list[tuple[DocumentRow, JobRow]]:
    """`hold` for many jobs; those whose lease was lost are left out."""
    tokens = {job.id: job.fencing_token for job in claimed}
    ids = [job.document_id for job in claimed]
    documents = select(DocumentRow).where(DocumentRow.id.in_(ids)).order_by(DocumentRow.id).with_for_update()
    found = {row.id: row for row in session.scalars(documents)}
    locked = select(JobRow).where(JobRow.id.in_(tokens)).order_by(JobRow.document_id).with_for_update()
    rows = session.scalars(locked.execution_options(populate_existing=True))
    return [
        (found[row.document_id], row)
        for row in rows
        if row.document_id in found and row.fencing_token == tokens[row.id] and row.state is JobState.RUNNING
    ]


def finish(row: JobRow, now: datetime) -> None:
    row.state, row.finished_at, row.progress, row.error = JobState.DONE, now, 1.0, None
    row.lease_owner, row.lease_until = None, None


def fail(session: Session, job: Job, reason: str, retry_in: timedelta | None, now: datetime) -> None:
    document, row = hold(session, job)
    if retry_in is None or row.attempts >= MAX_ATTEMPTS:
        _bury(document, row, reason, now)
        return
    row.state, row.error, row.not_before = JobState.FAILED, reason, now + retry_in
    row.lease_owner, row.lease_until = None, None
    document.error, document.updated_at = reason, now


def release(session: Session, job: Job, reason: str | None, now: datetime) -> None:
    document, row = lock_document(session, job.document_id), _lock_job(session, job.id)
    if row is None or row.fencing_token != job.fencing_token:
        return  # another worker has it
    was_cancelled = row.state is not JobState.RUNNING
    row.lease_owner, row.lease_until = None, None
    if was_cancelled or reason is None:
        notify(session)
    if was_cancelled:
        return  # the document is free for its next job
    row.state, row.attempts, row.not_before = JobState.QUEUED, row.attempts - 1, now
    if reason is None:
        return
    row.pauses += 1
    row.error, row.not_before = reason, now + min(MAX_PAUSE, timedelta(seconds=2 ** min(row.pauses, 10)))
    if row.pauses >= MAX_PAUSES:
        _bury(document, row, reason, now)


def cancel(session: Session, job_id: str, now: datetime) -> JobRow:
    document, row = lock_document(session, find(session, job_id).document_id), _lock_job(session, job_id)
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
    document, row = lock_document(session, find(session, job_id).document_id), _lock_job(session, job_id)
    if document is None or row is None:
        raise UnknownDocumentError(f"The document of job {job_id} no longer exists: add it again.")
    if row.state in (JobState.RUNNING, JobState.DONE):
        raise ConflictError(
            f"Job {job_id} is {row.state}: only a queued, failed, cancelled or dead job can be retried."
        )
    present = open_job(session, document.id)
    if present is not None and present.id != job_id:
        raise ConflictError(f"Job {job_id} was superseded: job {present.id} of the same document is {present.state}.")
    document.state, document.error, document.updated_at = _STATE_BY_KIND[row.kind], None, now
    notify(session)
    return _start_over(row, now)


def dead_ids(session: Session, collection: str | None) -> list[str]:
    """Dead jobs worth a retry: the document still exists and has no newer job."""
    newer = aliased(JobRow)
    statement = (
        select(JobRow.id)
        .join(DocumentRow, DocumentRow.id == JobRow.document_id)
        .where(JobRow.state == JobState.DEAD)
        .where(~exists().where(newer.document_id == JobRow.document_id, newer.created_at > JobRow.created_at))
        .order_by(JobRow.document_id)  # as all that lock several documents do
    )
    if collection is not None:
        statement = statement.where(JobRow.collection == collection)
    return list(session.scalars(statement))


def _bury(document: DocumentRow | None, row: JobRow, reason: str, now: datetime) -> None:
    row.state, row.error, row.finished_at = JobState.DEAD, reason, now
    row.lease_owner, row.lease_until = None, None
    if document is None:
        return
    document.error, document.updated_at = reason, now
    if row.kind is JobKind.INGEST:  # what was to be deleted stays on its way out
        document.state = DocumentState.FAILED


def lease_lost(job: Job) -> LeaseLostError:
    return LeaseLostError(f"Job {job.id} was cancelled or taken over since it was claimed as no. {job.fencing_token}.")
