"""Claims jobs inside an open transaction: picks the next job and buries jobs that keep killing workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from sqlalchemy import and_, bindparam, exists, func, or_, select
from sqlalchemy.orm import Session, aliased

from app.catalog.jobs import MAX_LOST_ATTEMPTS, bury, lock_document, lock_job
from app.catalog.tables import CollectionRow, DocumentRow, JobRow, UtcDateTime, is_running, is_waiting
from app.types.documents import Job, JobKind, JobPriority, JobState

_NEVER = datetime.min.replace(tzinfo=UTC)
_WINDOW = 8  # queue rows to scan per small job wanted

# Built once, because every document needs a claim. Each query uses an index, so the queue's length does not matter.
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
# Counted in Python: with GROUP BY, SQLite would read every job in collection order.
_RUNNING = (
    select(JobRow.collection, DocumentRow.added_by)
    .outerjoin(DocumentRow, DocumentRow.id == JobRow.document_id)
    .where(is_running, JobRow.lease_until > _NOW)
)
_last_claim = select(func.max(JobRow.claimed_at)).where(JobRow.collection == CollectionRow.name).scalar_subquery()
_of_user = select(DocumentRow.added_by).join(JobRow, JobRow.document_id == DocumentRow.id)
_in_this_collection = JobRow.collection == CollectionRow.name
_next_user = _of_user.where(_is_due, _in_this_collection).order_by(*_in_turn).limit(1).correlate(CollectionRow)
_latest = JobRow.claimed_at.desc()
_last_user = _of_user.where(_in_this_collection, JobRow.claimed_at.is_not(None)).order_by(_latest).limit(1)
_LAST_CLAIMS = select(_last_user.correlate(CollectionRow).scalar_subquery(), _last_claim).select_from(CollectionRow)
_COLLECTIONS_WITH_WORK = (
    select(CollectionRow.name, _next_user.scalar_subquery())
    .where(~CollectionRow.is_paused, exists().where(_is_due, JobRow.collection == CollectionRow.name))
    .order_by(_last_claim.nulls_first(), CollectionRow.name)
)


def claim(session: Session, owner: str, lease: timedelta, now: datetime) -> JobRow | None:
    row = session.scalar(_ABANDONED, {"now": now}) or _take_turn(session, now)
    if row is None:
        return None
    _take(row, owner, lease, now)
    return row


def claim_shard(
    session: Session, owner: str, collection: str, limit: int, lease: timedelta, now: datetime
) -> list[JobRow]:
    """`claim` for many jobs of one collection. A job that was claimed this way before but never started does not
    count as attempted.
    """
    of_collection = {"now": now, "collection": collection}
    documents = JobRow.kind != JobKind.LENS_INDEX
    abandoned = _ABANDONED.where(JobRow.collection == collection, documents).limit(limit)
    rows = list(session.scalars(abandoned, {"now": now}))
    untouched = {row.id for row in rows if row.progress == 0}
    paused = session.scalar(select(CollectionRow.is_paused).where(CollectionRow.name == collection))
    for priority in () if paused else JobPriority:
        due = _DUE.where(documents).limit(limit - len(rows))
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
        # Limit the scan: the next small document may be far behind many large ones.
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
    """The next due job of the highest priority that has one. Users take turns, and so do the collections of each.

    Concurrent claims may pick the same collection; later claims even this out.
    """
    for priority in JobPriority:
        due = {"now": now, "priority": priority}
        users: dict[str, str | None] = dict(session.execute(_COLLECTIONS_WITH_WORK, due).tuples().all())
        for collection in _in_order_of_turns(session, users, now) if users else ():
            row = session.scalar(_DUE, {**due, "collection": collection})
            if row is not None:  # None: other workers took the last ones
                return row
    return None


def _in_order_of_turns(session: Session, users: Mapping[str, str | None], now: datetime) -> list[str]:
    """Collections with work, each with the user who added its next document, in the order of their last claims."""
    running = session.execute(_RUNNING, {"now": now}).all()
    by_collection, by_user = Counter(name for name, _ in running), Counter(user for _, user in running)
    last: dict[str | None, datetime] = {}
    if len(set(users.values())) > 1:
        for user, at in session.execute(_LAST_CLAIMS):
            last[user] = max(at or _NEVER, last.get(user, _NEVER))

    def turn(name: str) -> tuple[int, datetime, int]:
        user = users[name]
        return by_user[user] if last else 0, last.get(user, _NEVER), by_collection[name]

    return sorted(users, key=turn)  # sort is stable: ties go to the oldest last claim


def bury_abandoned(session: Session, now: datetime) -> None:
    """Mark one job as dead whose workers were lost too often: it would probably kill the next worker, too."""
    exhausted = session.scalar(_EXHAUSTED, {"now": now})
    if exhausted is None:
        return
    document, row = lock_document(session, exhausted.document_id), lock_job(session, exhausted.id)
    if row is None or row.state is not JobState.RUNNING or row.lease_until is None or row.lease_until > now:
        return  # another worker was faster
    reason = f"Every worker that claimed it died ({row.attempts} times): out of memory, or killed."
    bury(document, row, reason, now)
