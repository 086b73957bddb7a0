"""The job ledger for bulk ingestion in shards: claims and leases of many jobs in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from app.catalog import claims
from app.catalog.sessions import CatalogPart
from app.catalog.tables import CollectionRow, DocumentRow, JobRow, UtcDateTime, is_running
from app.types.documents import Document, Job, JobState

_IDS_PER_QUERY = 1_000

_PROLONG = (
    update(JobRow.__table__)  # type: ignore[arg-type]
    .where(JobRow.id == bindparam("job_id"), JobRow.fencing_token == bindparam("token"))
    .where(JobRow.state == JobState.RUNNING)
    .values(lease_until=bindparam("until", type_=UtcDateTime()), progress=bindparam("reached"))
)


class SqlShards(CatalogPart):
    """Claims and leases of many jobs at once."""

    def claim(self, owner: str, *, collection: str, limit: int, lease: timedelta) -> list[Job]:
        now = self._database.clock()
        with self._database.writing() as session:
            claims.bury_abandoned(session, now)
        with self._database.writing() as session:
            return [row.as_job() for row in claims.claim_shard(session, owner, collection, limit, lease, now)]

    def claim_batch(
        self, job: Job, owner: str, *, limit: int, max_bytes: int, max_attempts: int, lease: timedelta
    ) -> list[Job]:
        now = self._database.clock()
        with self._database.writing() as session:
            rows = claims.claim_batch(
                session,
                job,
                owner,
                limit=limit,
                max_bytes=max_bytes,
                max_attempts=max_attempts,
                lease=lease,
                now=now,
            )
            return [row.as_job() for row in rows]

    def documents_of(self, claimed: Iterable[Job]) -> dict[str, Document]:
        documents: dict[str, Document] = {}
        with self._database.reading() as session:
            for some in _by_query(claimed):
                statement = select(DocumentRow).where(DocumentRow.id.in_([job.document_id for job in some]))
                documents |= {row.id: row.as_document() for row in session.scalars(statement)}
        return documents

    def heartbeat(self, progress: Mapping[Job, float], *, lease: timedelta) -> set[str]:
        until = self._database.clock() + lease
        # The order in which every transaction locks jobs of several documents.
        ordered = sorted(progress.items(), key=lambda item: item[0].document_id)
        with self._database.writing() as session:
            held = _held(session, progress)
            rows = [
                {"job_id": job.id, "token": job.fencing_token, "until": until, "reached": reached}
                for job, reached in ordered
                if job.id in held
            ]
            if rows:
                session.connection().execute(_PROLONG, rows)
            return held

    def held(self, claimed: Iterable[Job]) -> set[str]:
        with self._database.reading() as session:
            return _held(session, claimed)


def _held(session: Session, claimed: Iterable[Job]) -> set[str]:
    held: set[str] = set()
    for some in _by_query(claimed):
        tokens = {job.id: job.fencing_token for job in some}
        rows = session.execute(
            select(JobRow.id, JobRow.fencing_token)
            .join(CollectionRow, CollectionRow.name == JobRow.collection)
            .where(JobRow.id.in_(tokens), is_running, ~CollectionRow.is_paused)
        )
        held |= {job_id for job_id, token in rows if token == tokens[job_id]}
    return held


def _by_query(claimed: Iterable[Job]) -> Iterator[list[Job]]:
    jobs_claimed = list(claimed)
    for start in range(0, len(jobs_claimed), _IDS_PER_QUERY):
        yield jobs_claimed[start : start + _IDS_PER_QUERY]
