"""Idempotency records: stored answers by the client's key, so that a repeated request runs once."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, delete, or_, update

from app.catalog.sessions import CatalogPart, add_unless_taken
from app.catalog.tables import AnswerRow
from app.types.idempotency import IdempotencyRecord

# Longer than a request runs, and than its answer is kept. Rows that end later were written while the clock was ahead.
_FARTHEST_OPEN = timedelta(hours=1)
_FARTHEST = timedelta(days=2)


class SqlIdempotency(CatalogPart):
    def begin(self, caller: str, key: str, *, digest: str, lease: timedelta) -> IdempotencyRecord | None:
        now = self._database.clock()
        with self._database.writing() as session:
            session.execute(delete(AnswerRow).where(_is_over(now)))
            while True:
                if add_unless_taken(session, AnswerRow(caller=caller, key=key, digest=digest, until=now + lease)):
                    return None
                row = session.get(AnswerRow, (caller, key), populate_existing=True)
                if row is not None:  # None: another process has just deleted it
                    return IdempotencyRecord(row.digest, row.status, row.body)

    def keep(self, caller: str, key: str, *, status: int, body: str, keep: timedelta) -> None:
        changed = {"status": status, "body": body, "until": self._database.clock() + keep}
        with self._database.writing() as session:
            session.execute(update(AnswerRow).where(*_open(caller, key)).values(changed))

    def forget(self, caller: str, key: str) -> None:
        with self._database.writing() as session:
            session.execute(delete(AnswerRow).where(*_open(caller, key)))


def _is_over(now: datetime) -> ColumnElement[bool]:
    is_lost = and_(AnswerRow.status.is_(None), AnswerRow.until > now + _FARTHEST_OPEN)
    return or_(AnswerRow.until <= now, AnswerRow.until > now + _FARTHEST, is_lost)


def _open(caller: str, key: str) -> tuple[ColumnElement[bool], ...]:
    return AnswerRow.caller == caller, AnswerRow.key == key, AnswerRow.status.is_(None)
