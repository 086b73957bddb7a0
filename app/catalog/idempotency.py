"""Idempotency records: stored answers by the client's key, so that a repeated request runs once."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import ColumnElement, delete, update

from app.catalog.sessions import CatalogPart, add_unless_taken
from app.catalog.tables import AnswerRow
from app.types.idempotency import IdempotencyRecord


class SqlIdempotency(CatalogPart):
    def begin(self, caller: str, key: str, *, digest: str, lease: timedelta) -> IdempotencyRecord | None:
        now = self._database.clock()
        with self._database.writing() as session:
            session.execute(delete(AnswerRow).where(AnswerRow.until <= now))
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


def _open(caller: str, key: str) -> tuple[ColumnElement[bool], ...]:
    return AnswerRow.caller == caller, AnswerRow.key == key, AnswerRow.status.is_(None)
