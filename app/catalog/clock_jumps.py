"""Repairs jobs whose times are implausibly far in the future after a clock jump."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Select, func, select, update
from sqlalchemy.orm import Session

from app.catalog.tables import JobRow, is_running, is_waiting

# Longer than any lease, pause or retry delay. If the job's worker is still alive, fencing tokens keep the job
# consistent.
FARTHEST = timedelta(hours=1)


def count_ahead(session: Session, now: datetime) -> int:
    counts = (session.scalar(select(func.count()).select_from(ids.subquery())) for ids in _ahead(now + FARTHEST))
    return sum(count or 0 for count in counts)


def bring_back(session: Session, now: datetime, *, lease: timedelta) -> bool:
    """Makes all misdated jobs due now; returns whether there were any. `lease`: the workers' lease, which may exceed
    the default.
    """
    farthest = now + max(FARTHEST, 10 * lease)
    leased, scheduled = (
        session.scalars(ids.with_for_update(skip_locked=True, of=JobRow)).all() for ids in _ahead(farthest)
    )
    for ids, change in ((leased, {"lease_until": now}), (scheduled, {"not_before": now})):
        if ids:
            session.execute(update(JobRow).where(JobRow.id.in_(ids)).values(change))
    return bool(leased or scheduled)


def _ahead(farthest: datetime) -> tuple[Select[str], Select[str]]:
    """Ids of jobs leased for too long, and of jobs scheduled too far ahead. Both queries use an index."""
    leased = select(JobRow.id).where(is_running, JobRow.lease_until > farthest)
    return leased, select(JobRow.id).where(is_waiting, JobRow.not_before > farthest)
