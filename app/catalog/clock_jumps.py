"""Jobs whose times lie further ahead than any that are set: a clock jumped ahead, and came back."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Select, func, select, update
from sqlalchemy.orm import Session

from app.catalog.tables import JobRow, is_running, is_waiting

# Beyond every lease, pause and retry; fencing tokens keep a job right whose worker is alive after all.
FARTHEST = timedelta(hours=1)


def count_ahead(session: Session, now: datetime) -> int:
    counts = (session.scalar(select(func.count()).select_from(each.subquery())) for each in _ahead(now + FARTHEST))
    return sum(each or 0 for each in counts)


def bring_back(session: Session, now: datetime, *, lease: timedelta) -> bool:
    """Whether there were any; they are due now. `lease` is that of workers, which may be longer than most."""
    farthest = now + max(FARTHEST, 10 * lease)
    leased, scheduled = (
        session.scalars(each.with_for_update(skip_locked=True, of=JobRow)).all() for each in _ahead(farthest)
    )
    for ids, change in ((leased, {"lease_until": now}), (scheduled, {"not_before": now})):
        if ids:
            session.execute(update(JobRow).where(JobRow.id.in_(ids)).values(change))
    return bool(leased or scheduled)


def _ahead(farthest: datetime) -> tuple[Select[str], Select[str]]:
    """Ids of those that are leased for too long, and of those that wait too long. Each takes a look into an index."""
    leased = select(JobRow.id).where(is_running, JobRow.lease_until > farthest)
    return leased, select(JobRow.id).where(is_waiting, JobRow.not_before > farthest)
