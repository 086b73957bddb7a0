"""Users, keys, sessions and the audit log in the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.catalog.access_tables import ApiKeyRow, AuditRow, UserRow, WebSessionRow
from app.catalog.sessions import Sessions
from app.errors import ConflictError, NotFoundError, UnknownUserError
from app.types.access import ApiKey, AuditEntry, User, WebSession


class AccessLedger(Sessions):
    def users(self) -> list[User]:
        with self._session(self._engine) as session:
            return [row.as_user() for row in session.scalars(select(UserRow).order_by(UserRow.name))]

    def user(self, name: str) -> User:
        with self._session(self._engine) as session:
            return _user_row(session, name).as_user()

    def add_user(self, user: User) -> None:
        try:
            with self._session(self._writer) as session:
                session.add(UserRow(**_values(user)))
        except IntegrityError:
            raise ConflictError(f"There is a user {user.name!r} already; choose another name.") from None

    def change_user(self, user: User) -> None:
        with self._session(self._writer) as session:
            row = _user_row(session, user.name)
            for name, value in _values(user).items():
                if name not in ("name", "created_at"):
                    setattr(row, name, value)

    def delete_user(self, name: str) -> None:
        with self._session(self._writer) as session:
            session.delete(_user_row(session, name))

    def keys(self, user: str | None = None) -> list[ApiKey]:
        newest = select(ApiKeyRow).order_by(ApiKeyRow.created_at.desc(), ApiKeyRow.id)
        with self._session(self._engine) as session:
            rows = session.scalars(newest if user is None else newest.where(ApiKeyRow.user == user))
            return [row.as_key() for row in rows]

    def key(self, key_id: str) -> ApiKey | None:
        with self._session(self._engine) as session:
            row = session.get(ApiKeyRow, key_id)
            return None if row is None else row.as_key()

    def add_key(self, key: ApiKey) -> None:
        with self._session(self._writer) as session:
            _user_row(session, key.user)
            session.add(ApiKeyRow(**_values(key)))

    def revoke_key(self, key_id: str) -> None:
        with self._session(self._writer) as session:
            row = session.get(ApiKeyRow, key_id)
            if row is None:
                raise NotFoundError(f"No key has the id {key_id!r}. `gircse keys list` shows them.")
            row.revoked_at = row.revoked_at or self._clock()

    def add_session(self, session: WebSession) -> None:
        with self._session(self._writer) as transaction:
            transaction.execute(delete(WebSessionRow).where(WebSessionRow.expires_at <= self._clock()))
            transaction.add(WebSessionRow(**asdict(session)))

    def web_session(self, token_hash: str) -> WebSession | None:
        with self._session(self._engine) as session:
            row = session.get(WebSessionRow, token_hash)
            return None if row is None else row.as_session()

    def end_session(self, token_hash: str) -> None:
        with self._session(self._writer) as session:
            session.execute(delete(WebSessionRow).where(WebSessionRow.token_hash == token_hash))

    def note(self, entry: AuditEntry) -> None:
        with self._session(self._writer) as session:
            session.add(AuditRow(**asdict(entry)))

    def audit_entries(
        self, *, actions: Sequence[str] = (), actor: str | None = None, limit: int = 100, offset: int = 0
    ) -> list[AuditEntry]:
        newest = select(AuditRow).order_by(AuditRow.at.desc(), AuditRow.id.desc()).limit(limit).offset(offset)
        if actions:
            newest = newest.where(AuditRow.action.in_(actions))
        if actor is not None:
            newest = newest.where(AuditRow.actor == actor)
        with self._session(self._engine) as session:
            return [row.as_entry() for row in session.scalars(newest)]

    def count_noted(self, action: str, *, since: datetime, actor: str | None = None, subject: str | None = None) -> int:
        found = select(func.count()).select_from(AuditRow).where(AuditRow.action == action, AuditRow.at > since)
        if actor is not None:
            found = found.where(AuditRow.actor == actor)
        if subject is not None:
            found = found.where(AuditRow.subject == subject)
        with self._session(self._engine) as session:
            return session.scalar(found) or 0


def _user_row(session: Session, name: str) -> UserRow:
    row = session.get(UserRow, name)
    if row is None:
        raise UnknownUserError(f"No user is named {name!r}. `gircse users list` shows them.")
    return row


def _values(kept: User | ApiKey) -> dict[str, object]:
    return asdict(kept) | {"role": kept.role.label, "collections": list(kept.collections)}
