"""Users, keys, sessions and the audit log in the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import case, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.catalog import quotas
from app.catalog.access_tables import ApiKeyRow, AttemptRow, AuditRow, IdentityRow, UserRow, WebSessionRow
from app.catalog.searches import delete_searches_of
from app.catalog.sessions import CatalogPart, add_unless_taken, insert_into
from app.errors import ConflictError, NotFoundError, UnknownUserError
from app.types.access import (
    MAX_KEYS,
    MAX_SESSIONS,
    AccountChange,
    ApiKey,
    AttemptCount,
    AuditEntry,
    Identity,
    User,
    WebSession,
)
from app.types.quotas import StoredAmount


class SqlAccess(CatalogPart):
    """Users, their keys and sessions, counters of failed sign-ins, and the audit log."""

    def users(self) -> list[User]:
        """All users, sorted by name."""
        with self._database.reading() as session:
            return [row.as_user() for row in session.scalars(select(UserRow).order_by(UserRow.name))]

    def user(self, name: str) -> User:
        """Raises UnknownUserError."""
        with self._database.reading() as session:
            return _user_row(session, name).as_user()

    def add_user(self, user: User, *, identity: Identity | None = None) -> None:
        """Add a user and, in the same transaction, link the identity. Raises ConflictError if the name is taken or
        the identity belongs to another user.
        """
        try:
            with self._database.writing() as session:
                session.add(UserRow(**_values(user)))
                if identity is not None:
                    session.flush()
                    session.add(IdentityRow(**asdict(identity), user=user.name, created_at=self._database.clock()))
        except IntegrityError:
            raise ConflictError(f"User {user.name!r} already exists; choose another name.") from None

    def change_user(self, name: str, change: AccountChange, *, only_password: str | None = None) -> User:
        """Update the user and return the new state. With `only_password`, the update applies only while the user is
        enabled and still has this password hash. Raises UnknownUserError.
        """
        values = _changed(change)
        if change.is_disabled is not None:
            values["disabled_at"] = self._database.clock() if change.is_disabled else None
        with self._database.writing() as session:
            if values:
                statement = update(UserRow).where(UserRow.name == name)
                if only_password is not None:
                    statement = statement.where(UserRow.disabled_at.is_(None), UserRow.password_hash == only_password)
                if session.execute(statement.values(**values).returning(UserRow.name)).first() is None:
                    raise UnknownUserError.of(name)
            if change.is_disabled:
                session.execute(delete(WebSessionRow).where(WebSessionRow.user == name))
            return _user_row(session, name).as_user()

    def delete_user(self, name: str) -> None:
        """Delete the user with all their keys, sessions, identities and searches. Raises UnknownUserError."""
        with self._database.writing() as session:
            session.delete(_user_row(session, name))
            delete_searches_of(session, name)

    def user_of(self, identity: Identity) -> str | None:
        with self._database.reading() as session:
            row = session.get(IdentityRow, (identity.issuer, identity.subject))
            return None if row is None else row.user

    def identities(self, user: str | None = None) -> list[tuple[Identity, str]]:
        """Pairs of identity and user name, sorted by user."""
        statement = select(IdentityRow).order_by(IdentityRow.user, IdentityRow.issuer, IdentityRow.subject)
        with self._database.reading() as session:
            rows = session.scalars(statement if user is None else statement.where(IdentityRow.user == user))
            return [(Identity(row.issuer, row.subject), row.user) for row in rows]

    def connect_user(self, name: str, identity: Identity) -> None:
        """Raises UnknownUserError, and ConflictError if the identity belongs to another user."""
        with self._database.writing() as session:
            _user_row(session, name)
            row = IdentityRow(**asdict(identity), user=name, created_at=self._database.clock())
            if not add_unless_taken(session, row):
                present = session.get_one(IdentityRow, (identity.issuer, identity.subject))
                if present.user != name:
                    raise ConflictError(
                        f"{identity.subject!r} is already linked to user {present.user!r}; run "
                        f"`gircse users disconnect {present.user}` to unlink it."
                    )

    def disconnect_user(self, name: str) -> int:
        """Unlink all identities of the user, end the user's sessions, and return the number of unlinked identities.
        Raises UnknownUserError.
        """
        with self._database.writing() as session:
            _user_row(session, name)
            session.execute(delete(WebSessionRow).where(WebSessionRow.user == name))
            ended = delete(IdentityRow).where(IdentityRow.user == name).returning(IdentityRow.subject)
            return len(session.execute(ended).all())

    def keys(self, user: str | None = None) -> list[ApiKey]:
        """Newest first, including revoked keys."""
        newest = select(ApiKeyRow).order_by(ApiKeyRow.created_at.desc(), ApiKeyRow.id)
        with self._database.reading() as session:
            rows = session.scalars(newest if user is None else newest.where(ApiKeyRow.user == user))
            return [row.as_key() for row in rows]

    def key(self, key_id: str) -> ApiKey | None:
        with self._database.reading() as session:
            row = session.get(ApiKeyRow, key_id)
            return None if row is None else row.as_key()

    def add_key(self, key: ApiKey) -> None:
        """Also delete the oldest invalid keys of the user beyond MAX_KEYS. Raises UnknownUserError, and ConflictError
        if the user has as many valid ones.
        """
        now = self._database.clock()
        with self._database.writing() as session:
            _user_row(session, key.user, is_locked=True)
            of_user = select(ApiKeyRow).where(ApiKeyRow.user == key.user).order_by(ApiKeyRow.created_at.desc())
            present = session.scalars(of_user).all()
            invalid = [row for row in present if not row.as_key().is_valid(now)]
            if len(present) - len(invalid) >= MAX_KEYS:
                raise ConflictError(f"{key.user} has {MAX_KEYS} API keys, the most for one user: revoke some first.")
            for row in invalid[MAX_KEYS:]:
                session.delete(row)
            session.add(ApiKeyRow(**_values(key)))

    def revoke_key(self, key_id: str) -> None:
        """Revoke the key immediately and permanently. Raises NotFoundError."""
        with self._database.writing() as session:
            row = session.get(ApiKeyRow, key_id)
            if row is None:
                raise NotFoundError(f"No key with the id {key_id!r}. `gircse keys list` shows all keys.")
            row.revoked_at = row.revoked_at or self._database.clock()

    def add_session(self, session: WebSession) -> None:
        """Add a session and delete expired ones, and of the user's others those beyond MAX_SESSIONS that were not used
        for longest. Raises UnknownUserError if the user is deleted or disabled. The row
        lock makes a concurrent `change_user` that disables the user wait, and then delete this session as well.
        """
        with self._database.writing() as transaction:
            is_enabled = select(UserRow.name).where(UserRow.name == session.user, UserRow.disabled_at.is_(None))
            # blocks a concurrent disable until this session is stored
            if transaction.scalar(is_enabled.with_for_update()) is None:
                raise UnknownUserError.of(session.user)
            transaction.execute(delete(WebSessionRow).where(WebSessionRow.expires_at <= self._database.clock()))
            of_user = select(WebSessionRow.token_hash).where(WebSessionRow.user == session.user)
            latest = of_user.order_by(WebSessionRow.used_at.desc(), WebSessionRow.id).offset(MAX_SESSIONS - 1)
            old = transaction.scalars(latest).all()
            transaction.execute(delete(WebSessionRow).where(WebSessionRow.token_hash.in_(old)))
            transaction.add(WebSessionRow(**asdict(session)))

    def web_session(self, token_hash: str) -> WebSession | None:
        with self._database.reading() as session:
            row = session.get(WebSessionRow, token_hash)
            return None if row is None else row.as_session()

    def web_sessions(self, user: str | None = None) -> list[WebSession]:
        """Most recently used first, including expired sessions that are not deleted yet."""
        latest = select(WebSessionRow).order_by(WebSessionRow.used_at.desc(), WebSessionRow.id)
        with self._database.reading() as session:
            rows = session.scalars(latest if user is None else latest.where(WebSessionRow.user == user))
            return [row.as_session() for row in rows]

    def use_session(self, token_hash: str, at: datetime) -> None:
        used = update(WebSessionRow).where(WebSessionRow.token_hash == token_hash).values(used_at=at)
        with self._database.writing() as session:
            session.execute(used)

    def end_sessions(self, token_hashes: Sequence[str]) -> None:
        with self._database.writing() as session:
            session.execute(delete(WebSessionRow).where(WebSessionRow.token_hash.in_(token_hashes)))

    def stored_amount(self, user: str) -> StoredAmount:
        """Storage that the documents of this user take up."""
        with self._database.reading() as session:
            return quotas.stored_amount(session, user)

    def attempts(
        self, counters: Sequence[str], *, since: datetime, until: datetime | None = None
    ) -> dict[str, AttemptCount]:
        """The counters whose window began after `since`, and not after `until`."""
        statement = select(AttemptRow).where(AttemptRow.counter.in_(counters), AttemptRow.began_at > since)
        if until is not None:
            statement = statement.where(AttemptRow.began_at <= until)
        with self._database.reading() as session:
            return {row.counter: AttemptCount(row.began_at, row.failures) for row in session.scalars(statement)}

    def begin_attempt(self, counters: Sequence[str], *, at: datetime, since: datetime) -> dict[str, AttemptCount]:
        """Add one to each counter, in one transaction. A counter whose window began before `since` restarts at 1,
        as does one that began so long after `at`: the clock was ahead, and would lock out its owner until then.
        Also deletes other counters that are as old.
        """
        with self._database.writing() as session:
            # Sorted, so that two transactions cannot deadlock.
            counts = {counter: _count_one(session, counter, at=at, since=since) for counter in sorted(counters)}
        if any(count.failures == 1 for count in counts.values()):
            old = select(AttemptRow.counter).where(AttemptRow.began_at <= since).with_for_update(skip_locked=True)
            with self._database.writing() as session:
                session.execute(delete(AttemptRow).where(AttemptRow.counter.in_(old)))
        return counts

    def forgive_attempt(self, counters: Sequence[str]) -> None:
        """Subtract one from each counter."""
        with self._database.writing() as session:
            for counter in sorted(counters):
                session.execute(
                    update(AttemptRow)
                    .where(AttemptRow.counter == counter, AttemptRow.failures > 0)
                    .values(failures=AttemptRow.failures - 1)
                )

    def note(self, *entries: AuditEntry) -> list[int]:
        """Add the entries. Returns their ids, for `take_back`."""
        rows = [AuditRow(**asdict(entry)) for entry in entries]
        with self._database.writing() as session:
            session.add_all(rows)
            session.flush()
            return [row.id for row in rows]

    def take_back(self, ids: Sequence[int]) -> None:
        """Delete entries of operations that were refused after `note`."""
        with self._database.writing() as session:
            session.execute(delete(AuditRow).where(AuditRow.id.in_(ids)))

    def audit_entries(
        self, *, actions: Sequence[str] = (), actor: str | None = None, limit: int = 100, offset: int = 0
    ) -> list[AuditEntry]:
        """Newest first."""
        newest = select(AuditRow).order_by(AuditRow.at.desc(), AuditRow.id.desc()).limit(limit).offset(offset)
        if actions:
            newest = newest.where(AuditRow.action.in_(actions))
        if actor is not None:
            newest = newest.where(AuditRow.actor == actor)
        with self._database.reading() as session:
            return [row.as_entry() for row in session.scalars(newest)]

    def count_noted(self, action: str, *, since: datetime, actor: str | None = None, subject: str | None = None) -> int:
        statement = select(func.count()).select_from(AuditRow).where(AuditRow.action == action, AuditRow.at > since)
        if actor is not None:
            statement = statement.where(AuditRow.actor == actor)
        if subject is not None:
            statement = statement.where(AuditRow.subject == subject)
        with self._database.reading() as session:
            return session.scalar(statement) or 0


def _count_one(session: Session, counter: str, *, at: datetime, since: datetime) -> AttemptCount:
    """Upsert locks the row, so concurrent transactions get different counts."""
    insert = insert_into(session, AttemptRow).values(counter=counter, began_at=at, failures=1)
    is_over = or_(AttemptRow.began_at <= since, AttemptRow.began_at > at + (at - since))
    statement = insert.on_conflict_do_update(
        index_elements=["counter"],
        set_={
            "began_at": case((is_over, insert.excluded.began_at), else_=AttemptRow.began_at),
            "failures": case((is_over, 1), else_=AttemptRow.failures + 1),
        },
    ).returning(AttemptRow.began_at, AttemptRow.failures)
    return AttemptCount(*session.execute(statement).one())


def _user_row(session: Session, name: str, *, is_locked: bool = False) -> UserRow:
    row = session.get(UserRow, name, with_for_update={"key_share": True} if is_locked else None)
    if row is None:
        raise UnknownUserError.of(name)
    return row


def _changed(change: AccountChange) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if change.role is not None:
        values["role"] = change.role.label
    if change.collections is not None:
        values["collections"] = list(change.collections)
    if change.password_hash is not None:
        values["password_hash"] = change.password_hash
    if change.quotas is not None:
        values |= _quota_columns(asdict(change.quotas))
    return values


def _values(record: User | ApiKey) -> dict[str, Any]:
    values: dict[str, Any] = asdict(record) | {"role": record.role.label, "collections": list(record.collections)}
    if isinstance(record, ApiKey):
        return values | {"scopes": list(record.scopes)}
    return values | _quota_columns(values.pop("quotas"))


def _quota_columns(quotas: Mapping[str, int | None]) -> dict[str, int | None]:
    return {f"quota_{name}": limit for name, limit in quotas.items()}
