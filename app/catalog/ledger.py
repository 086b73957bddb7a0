"""The job ledger of the catalog: each method is a transaction around functions of app.catalog.jobs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from app.catalog import claims, clock_jumps, jobs, notifications
from app.catalog.sessions import CatalogPart, collection_row
from app.catalog.tables import CollectionRow, DocumentRow, JobRow, is_waiting
from app.errors import ConflictError, NotFoundError
from app.ports.ledger import JobListener
from app.types.documents import Job, JobState
from app.types.left_out import left_out
from app.types.upkeep import JobReport

_RETRY_BATCH_SIZE = 100  # jobs per transaction


class SqlJobs(CatalogPart):
    def job(self, job_id: str) -> Job:
        with self._database.reading() as session:
            return jobs.find(session, job_id).as_job()

    def job_reports(self, job_ids: Sequence[str]) -> dict[str, JobReport]:
        statement = (
            select(
                JobRow,
                func.coalesce(DocumentRow.uri, ""),
                func.coalesce(DocumentRow.chunk_count, 0),
                DocumentRow.document_metadata,
            )
            .outerjoin(DocumentRow, DocumentRow.id == JobRow.document_id)
            .where(JobRow.id.in_(job_ids))
        )
        with self._database.reading() as session:
            return {
                row.id: JobReport(row.as_job(), uri, count, left_out(metadata or {}))
                for row, uri, count, metadata in session.execute(statement)
            }

    def jobs(
        self, *, state: JobState | None = None, collection: str | None = None, limit: int = 100, offset: int = 0
    ) -> list[Job]:
        statement = select(JobRow).order_by(JobRow.created_at.desc(), JobRow.id).limit(limit).offset(offset)
        if state is not None:
            statement = statement.where(JobRow.state == state)
        if collection is not None:
            statement = statement.where(JobRow.collection == collection)
        with self._database.reading() as session:
            return [row.as_job() for row in session.scalars(statement)]

    def job_counts(self, collection: str | None = None) -> dict[JobState, int]:
        statement = select(JobRow.state, func.count()).group_by(JobRow.state)
        if collection is not None:
            statement = statement.where(JobRow.collection == collection)
        with self._database.reading() as session:
            counted = dict(session.execute(statement).tuples().all())
        return {state: counted.get(state, 0) for state in JobState}

    def jobs_ahead(self) -> int:
        with self._database.reading() as session:
            return clock_jumps.count_ahead(session, self._database.clock())

    def queue_age(self) -> timedelta:
        is_paused = exists().where(CollectionRow.name == JobRow.collection, CollectionRow.is_paused)
        now = self._database.clock()
        statement = select(func.min(JobRow.not_before)).where(is_waiting, JobRow.not_before <= now, ~is_paused)
        with self._database.reading() as session:
            first = session.scalar(statement)
        return timedelta(0) if first is None else now - first

    def claim(self, owner: str, *, lease: timedelta) -> Job | None:
        now = self._database.clock()
        with self._database.writing() as session:
            claims.bury_abandoned(session, now)  # first: it waits for locks, while a claim skips locked jobs
            row = claims.claim(session, owner, lease, now)
            if row is None and clock_jumps.bring_back(session, now, lease=lease):
                row = claims.claim(session, owner, lease, now)
            return None if row is None else row.as_job()

    def listening(self) -> AbstractContextManager[JobListener]:
        return notifications.listening(self._database.engine)

    def heartbeat(self, job: Job, *, lease: timedelta, progress: float) -> None:
        with self._database.writing() as session:
            jobs.heartbeat(session, job, self._database.clock() + lease, progress)

    def check_lease(self, job: Job) -> None:
        with self._database.reading() as session:
            jobs.check_lease(session, job)

    def fail(self, job: Job, reason: str, *, retry_in: timedelta | None, may_succeed: bool = False) -> None:
        with self._database.writing() as session:
            jobs.fail(session, job, reason, retry_in, self._database.clock(), may_succeed=may_succeed)

    def release(self, job: Job, *, reason: str | None = None, is_suspect: bool = False) -> None:
        with self._database.writing() as session:
            jobs.release(session, job, reason, self._database.clock(), is_suspect=is_suspect)

    def retry(self, job_id: str) -> Job:
        with self._database.writing() as session:
            return jobs.retry(session, job_id, self._database.clock()).as_job()

    def retry_dead(self, collection: str | None = None) -> int:
        with self._database.reading() as session:
            if collection is not None:
                collection_row(session, collection)
            dead = jobs.dead_ids(session, collection)
        count = 0
        for start in range(0, len(dead), _RETRY_BATCH_SIZE):
            with self._database.writing() as session:
                count += sum(self._retry_still(session, job_id) for job_id in dead[start : start + _RETRY_BATCH_SIZE])
        return count

    def _retry_still(self, session: Session, job_id: str) -> bool:
        """False if the job changed after it was found, so that it needs no retry."""
        try:
            jobs.retry(session, job_id, self._database.clock())
        except (ConflictError, NotFoundError):
            return False
        return True

    def cancel(self, job_id: str) -> Job:
        with self._database.writing() as session:
            return jobs.cancel(session, job_id, self._database.clock()).as_job()

    def pause(self, collection: str | None = None) -> list[str]:
        return self._set_paused(collection, is_paused=True)

    def resume(self, collection: str | None = None) -> list[str]:
        return self._set_paused(collection, is_paused=False)

    def _set_paused(self, collection: str | None, *, is_paused: bool) -> list[str]:
        # Always the same lock order, and without blocking documents that are being added.
        statement = select(CollectionRow).order_by(CollectionRow.name).with_for_update(key_share=True)
        if collection is not None:
            statement = statement.where(CollectionRow.name == collection)
        with self._database.writing() as session:
            if collection is not None:
                collection_row(session, collection)
            rows = session.scalars(statement).all()
            for row in rows:
                row.is_paused = is_paused
            notifications.notify(session)
            return [row.name for row in rows]
