"""Users, keys, sessions and the audit log, limited to what the caller may see and change. Admins manage users with
no more rights than their own, users manage themselves, and a key manages only itself. The guard has already checked
role and scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from app.access.accounts import Accounts
from app.access.authorizer import Authorizer
from app.access.grants import is_key_within, is_user_within, own_collections, require_grant
from app.access.quotas import UserQuotas
from app.access.throttle import Throttle
from app.errors import ConflictError, ForbiddenError, NotFoundError, UnknownUserError
from app.types.access import ApiKey, AuditEntry, Identity, Principal, Role, Scope, User, WebSession
from app.types.documents import utc_now
from app.types.quotas import Quotas, QuotaUse

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlAccess


class AccountService:
    def __init__(
        self,
        accounts: Accounts,
        ledger: SqlAccess,
        authorizer: Authorizer,
        *,
        quotas: UserQuotas,
        idle: timedelta | None = None,
    ) -> None:
        """`idle`: the time without use after which a session ends; None for no limit. The same as in `Logins`."""
        self._quotas = quotas
        self._accounts = accounts
        self._ledger = ledger
        self._authorizer = authorizer
        self._idle = idle
        self._passwords = Throttle("password", ledger)  # else who has a session could guess the password behind it

    def me(self) -> Principal:
        """The caller."""
        return self._authorizer.require_role()

    # Users

    def users(self) -> list[User]:
        """Users with no more rights than the caller."""
        admin = self.me()
        return [user for user in self._ledger.users() if is_user_within(admin, user)]

    def user(self, name: str) -> User:
        return self._within(self.me(), name)

    def add_user(
        self, name: str, *, role: Role, collections: Iterable[str] | None = None, password: str | None = None
    ) -> User:
        """Without `collections`, the new user gets the caller's own. Raises ForbiddenError for rights that the
        caller lacks.
        """
        admin = self.me()
        granted = own_collections(admin) if collections is None else tuple(collections)
        require_grant(admin, role, granted)
        user = self._accounts.add_user(name, role=role, collections=granted, password=password)
        self._authorizer.note_done("user.added", name, {"role": role.label})
        return user

    def change_user(
        self,
        name: str,
        *,
        role: Role | None = None,
        collections: Iterable[str] | None = None,
        is_disabled: bool | None = None,
        password: str | None = None,
        quotas: Quotas | None = None,
    ) -> User:
        """Raises UnknownUserError for a user with more rights than the caller, ForbiddenError if the change would
        give them more.
        """
        admin = self.me()
        before = self._within(admin, name)
        granted = None if collections is None else tuple(collections)
        require_grant(admin, before.role if role is None else role, granted or ())
        user = self._accounts.change_user(
            name, role=role, collections=granted, is_disabled=is_disabled, password=password, quotas=quotas
        )
        state = "disabled" if user.disabled_at else "enabled"
        self._authorizer.note_done("user.changed", name, {"role": user.role.label, "state": state})
        return user

    def identities(self) -> dict[str, list[Identity]]:
        """Identities by user, for users with no more rights than the caller."""
        visible = {user.name for user in self.users()}
        identities: dict[str, list[Identity]] = {}
        for identity, user in self._ledger.identities():
            if user in visible:
                identities.setdefault(user, []).append(identity)
        return identities

    def connect_user(self, name: str, identity: Identity) -> None:
        """Let every person who signs in with this identity log in as this user. Raises ConflictError if it is another
        user's, without the name of a user with more rights than the caller.
        """
        admin = self.me()
        self._within(admin, name)
        owner = self._ledger.user_of(identity)
        if owner is not None and owner != name and not is_user_within(admin, self._ledger.user(owner)):
            raise ConflictError(f"{identity.subject[:80]!r} is already linked to another user.")
        self._accounts.connect_user(name, identity)
        self._authorizer.note_done("user.connected", name, asdict(identity))

    def disconnect_user(self, name: str) -> int:
        """Unlink all identities and end all sessions. Returns the number of unlinked identities."""
        self._within(self.me(), name)
        return self._accounts.disconnect_user(name)

    def change_own_password(self, current: str, new: str) -> None:
        """Raises ForbiddenError if the current password is wrong or the caller is a key, and ThrottledError after too
        many wrong ones for this user.
        """
        principal = self.me()
        if principal.key_id is not None:
            with self._passwords.attempt(f"key {principal.key_id}"):  # its own counter: it must not lock out its user
                raise self._refused_password(principal)
        with self._passwords.attempt(principal.name):
            old_hash = self._accounts.matching_hash(principal.name, current)
            if old_hash is None:
                raise self._refused_password(principal)
        self._accounts.replace_password(principal.name, new, old_hash=old_hash)
        self._authorizer.note_done("password.changed", principal.name)

    def has_own_password(self) -> bool:
        """Whether the caller can change their password: not `admin`, and nobody who logs in only through a provider."""
        principal = self.me()
        return principal.key_id is None and self._ledger.user(principal.name).password_hash is not None

    def _refused_password(self, principal: Principal) -> ForbiddenError:
        self._authorizer.note_refused("password.refused", principal.name)
        if principal.key_id is not None:
            return ForbiddenError("An API key cannot change a password. Log in to change it.")
        return ForbiddenError("The current password is wrong.")

    def remove_user(self, name: str) -> None:
        self._within(self.me(), name)
        self._accounts.remove_user(name)

    def _within(self, admin: Principal, name: str) -> User:
        """A user with more rights than the admin is reported as unknown."""
        user = self._ledger.user(name)
        if not is_user_within(admin, user):
            raise UnknownUserError.of(name)
        return user

    # Quotas

    def quota_use(self, name: str | None = None) -> list[QuotaUse]:
        """Quota use of the caller. Admins may name a user with no more rights than their own."""
        principal = self.me()
        if name is None or name == principal.name:
            return self._quotas.use(principal)
        user = self._within(self._authorizer.require_role(Role.ADMIN), name)
        return self._quotas.use(Principal(user.name, user.role, quotas=user.quotas))

    # Sessions

    def sessions(self, user: str | None = None) -> list[WebSession]:
        """Most recently used first. Users see their own sessions, admins also those of users with no more rights; a
        key sees them only with the scope `access`.
        """
        principal = self.me()
        if not principal.has_scope(Scope.ACCESS):
            return []
        is_admin = principal.role is Role.ADMIN
        visible = {other.name for other in self._ledger.users() if is_admin and is_user_within(principal, other)}
        visible.add(principal.name)
        sessions = self._ledger.web_sessions(user if is_admin else principal.name)
        shown = [session for session in sessions if session.user in visible and user in (None, session.user)]
        return [session for session in shown if not session.has_ended(utc_now(), self._idle)]

    def end_session(self, session_id: str) -> None:
        """A session that the caller cannot see is reported as unknown. Raises NotFoundError."""
        ended = [session for session in self.sessions() if session.id == session_id]
        if not ended:
            raise NotFoundError(
                f"No session with the id {session_id[:80]!r}. `gircse sessions list` shows all sessions."
            )
        self._end(ended)

    def end_other_sessions(self, user: str | None = None) -> int:
        """End all sessions of the caller, or of `user`, except the current one. Returns their number."""
        principal = self.me()
        if principal.role is not Role.ADMIN and user not in (None, principal.name):
            raise ForbiddenError("Only admins may end sessions of other users.")
        wanted = principal.name if user is None else self._within_or_own(principal, user).name
        ended = [session for session in self.sessions(wanted) if session.id != principal.session_id]
        self._end(ended)
        return len(ended)

    def _end(self, sessions: Sequence[WebSession]) -> None:
        self._ledger.end_sessions([session.token_hash for session in sessions])
        self._authorizer.note_all_done("session.ended", {session.id: {"user": session.user} for session in sessions})

    # Keys

    def api_keys(self) -> list[ApiKey]:
        """Users see their own keys, admins also keys with no more rights than their own; a key without the scope
        `access` sees only itself.
        """
        principal = self.me()
        if not principal.has_scope(Scope.ACCESS):
            own = self._ledger.key(principal.key_id or "")
            return [] if own is None else [own]
        is_admin = principal.role is Role.ADMIN
        owners = {user.name: user for user in self._ledger.users()}
        keys = self._accounts.api_keys(None if is_admin else principal.name)
        return [key for key in keys if key.user in owners and is_key_within(principal, key, owners[key.user])]

    def add_key(
        self,
        user: str | None = None,
        *,
        label: str = "",
        role: Role | None = None,
        collections: Iterable[str] | None = None,
        expires_at: datetime | None = None,
        scopes: Iterable[Scope] = (),
    ) -> tuple[ApiKey, str]:
        """Create a key for the caller, or, as an admin, for another user. Role, collections and a key's expiry
        default to the caller's. Raises ForbiddenError for more rights than the caller's.
        """
        principal = self.me()
        if principal.role is not Role.ADMIN and user not in (None, principal.name):
            raise ForbiddenError("Only admins may create keys for other users.")
        owner = self._ledger.user(principal.name) if user is None else self._within_or_own(principal, user)
        wanted = min(owner.role, principal.role) if role is None else role
        granted = own_collections(principal) if collections is None else tuple(collections)
        require_grant(principal, wanted, granted)
        key, secret = self._accounts.add_key(
            owner.name,
            label=label,
            role=wanted,
            collections=granted,
            expires_at=self._latest_end(principal, expires_at),
            scopes=scopes,
        )
        self._authorizer.note_done("key.added", key.id, {"user": owner.name, "role": key.role.label})
        return key, secret

    def revoke_key(self, key_id: str) -> None:
        """Revoke a key. One that the caller cannot see is reported as unknown."""
        key = next((own for own in self.api_keys() if own.id == key_id), None)
        if key is None:
            raise NotFoundError(f"No key with the id {key_id!r}. `gircse keys list` shows all keys.")
        self._ledger.revoke_key(key_id)
        if key.revoked_at is None:
            self._authorizer.note_done("key.revoked", key_id, {"user": key.user})

    def _within_or_own(self, principal: Principal, name: str) -> User:
        """A key may have fewer rights than its owner, but may create keys for the owner: they get no more rights
        than it has.
        """
        return self._ledger.user(name) if name == principal.name else self._within(principal, name)

    def _latest_end(self, principal: Principal, wanted: datetime | None) -> datetime | None:
        creator = None if principal.key_id is None else self._ledger.key(principal.key_id)
        if creator is None or creator.expires_at is None:
            return wanted
        if wanted is not None and wanted > creator.expires_at:
            raise ForbiddenError(
                f"A new key cannot outlive yours, which expires at {creator.expires_at:%Y-%m-%d %H:%M}."
            )
        return wanted or creator.expires_at

    # Audit log

    def audit_entries(
        self, *, actions: Sequence[str] = (), actor: str | None = None, limit: int = 100, offset: int = 0
    ) -> list[AuditEntry]:
        return self._ledger.audit_entries(actions=actions, actor=actor, limit=limit, offset=offset)
