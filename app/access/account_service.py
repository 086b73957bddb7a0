"""Users, keys, sessions and the audit log, as their caller may see and change them: admins those of users who may do no
more than they, users their own, and a key itself. The guard has checked role and scope before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from app.access.accounts import Accounts
from app.access.authorizer import Authorizer
from app.access.grants import is_key_within, is_user_within, own_collections, require_grant
from app.access.quotas import UserQuotas
from app.errors import ForbiddenError, NotFoundError, UnknownUserError
from app.types.access import ApiKey, AuditEntry, Identity, Principal, Role, Scope, User, WebSession
from app.types.documents import utc_now
from app.types.quotas import Quotas, QuotaUse

if TYPE_CHECKING:  # it brings in SQL
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
        """`idle` is that of `Logins`."""
        self._quotas = quotas
        self._accounts = accounts
        self._ledger = ledger
        self._authorizer = authorizer
        self._idle = idle

    def me(self) -> Principal:
        """The caller."""
        return self._authorizer.require_role()

    # Users

    def users(self) -> list[User]:
        """Those who may do no more than the caller."""
        admin = self.me()
        return [user for user in self._accounts.users() if is_user_within(admin, user)]

    def user(self, name: str) -> User:
        return self._within(self.me(), name)

    def add_user(
        self, name: str, *, role: Role, collections: Iterable[str] | None = None, password: str | None = None
    ) -> User:
        """With the caller's own collections, unless others are named. Raises ForbiddenError for more than those."""
        admin = self.me()
        granted = own_collections(admin) if collections is None else tuple(collections)
        require_grant(admin, role, granted)
        user = self._accounts.add_user(name, role=role, collections=granted, password=password)
        self._authorizer.note("user.added", name, {"role": role.label})
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
        """Raises UnknownUserError for one who may do more than the caller, ForbiddenError where they then could."""
        admin = self.me()
        before = self._within(admin, name)
        granted = None if collections is None else tuple(collections)
        require_grant(admin, before.role if role is None else role, granted or ())
        user = self._accounts.change_user(
            name, role=role, collections=granted, is_disabled=is_disabled, password=password, quotas=quotas
        )
        state = "disabled" if user.disabled_at else "enabled"
        self._authorizer.note("user.changed", name, {"role": user.role.label, "state": state})
        return user

    def identities(self) -> dict[str, list[Identity]]:
        """By user, of those who may do no more than the caller."""
        visible = {user.name for user in self.users()}
        found: dict[str, list[Identity]] = {}
        for identity, user in self._ledger.identities():
            if user in visible:
                found.setdefault(user, []).append(identity)
        return found

    def connect_user(self, name: str, identity: Identity) -> None:
        """Whom an OpenID provider knows by it signs in as this user."""
        self._within(self.me(), name)
        self._accounts.connect_user(name, identity)
        self._authorizer.note("user.connected", name, asdict(identity))

    def disconnect_user(self, name: str) -> int:
        """From all identities; how many they were. Sessions end."""
        self._within(self.me(), name)
        return self._accounts.disconnect_user(name)

    def change_own_password(self, current: str, new: str) -> None:
        """Raises ForbiddenError when the current one is wrong, or a key asks."""
        principal = self.me()
        if principal.key_id is not None or not self._accounts.change_own_password(principal.name, current, new):
            self._authorizer.note("password.refused", principal.name)
            raise ForbiddenError("The present password is wrong, or a key asks. Only its owner changes a password.")
        self._authorizer.note("password.changed", principal.name)

    def remove_user(self, name: str) -> None:
        self._within(self.me(), name)
        self._accounts.remove_user(name)

    def _within(self, admin: Principal, name: str) -> User:
        """One who may do more is as one who is not there."""
        user = self._accounts.user(name)
        if not is_user_within(admin, user):
            raise UnknownUserError.of(name)
        return user

    # Quotas

    def quota_use(self, name: str | None = None) -> list[QuotaUse]:
        """Of the caller; admins name another user, who may do no more than they."""
        principal = self.me()
        if name is None or name == principal.name:
            return self._quotas.use(principal)
        user = self._within(self._authorizer.require_role(Role.ADMIN), name)
        return self._quotas.use(Principal(user.name, user.role, quotas=user.quotas))

    # Sessions

    def sessions(self, user: str | None = None) -> list[WebSession]:
        """People see their own, admins those of all who may do no more than they; a key without the scope `access`
        sees none. The last used first."""
        principal = self.me()
        if not principal.has_scope(Scope.ACCESS):
            return []
        is_admin = principal.role is Role.ADMIN
        visible = {each.name for each in self._accounts.users() if is_admin and is_user_within(principal, each)}
        visible.add(principal.name)
        found = self._ledger.web_sessions(user if is_admin else principal.name)
        shown = [each for each in found if each.user in visible and user in (None, each.user)]
        return [each for each in shown if not each.has_ended(utc_now(), self._idle)]

    def end_session(self, session_id: str) -> None:
        """One that the caller cannot see is as one that is not there. Raises NotFoundError."""
        ended = [each for each in self.sessions() if each.id == session_id]
        if not ended:
            raise NotFoundError(f"No session has the id {session_id[:80]!r}. `gircse sessions list` shows them.")
        self._end(ended)

    def end_other_sessions(self, user: str | None = None) -> int:
        """All of the caller's, or of `user`, but the one that asks; how many they were."""
        principal = self.me()
        if principal.role is not Role.ADMIN and user not in (None, principal.name):
            raise ForbiddenError("Only admins end the sessions of others.")
        wanted = principal.name if user is None else self._within_or_own(principal, user).name
        ended = [each for each in self.sessions(wanted) if each.id != principal.session_id]
        self._end(ended)
        return len(ended)

    def _end(self, sessions: Sequence[WebSession]) -> None:
        self._ledger.end_sessions([each.token_hash for each in sessions])
        for each in sessions:
            self._authorizer.note("session.ended", each.id, {"user": each.user})

    # Keys

    def api_keys(self) -> list[ApiKey]:
        """People see their own keys, admins those that do no more than they; a key sees itself, unless it has the
        scope `access`."""
        principal = self.me()
        if not principal.has_scope(Scope.ACCESS):
            own = self._accounts.key(principal.key_id or "")
            return [] if own is None else [own]
        is_admin = principal.role is Role.ADMIN
        owners = {user.name: user for user in self._accounts.users()}
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
        """For the caller; admins may name another user. What is left out is as the caller has it: role, collections,
        and the end of a key that makes another. Raises ForbiddenError for more than that."""
        principal = self.me()
        if principal.role is not Role.ADMIN and user not in (None, principal.name):
            raise ForbiddenError("Only admins make keys for others.")
        owner = self._accounts.user(principal.name) if user is None else self._within_or_own(principal, user)
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
        self._authorizer.note("key.added", key.id, {"user": owner.name, "role": key.role.label})
        return key, secret

    def revoke_key(self, key_id: str) -> None:
        """One that the caller cannot see is as one that is not there."""
        key = next((each for each in self.api_keys() if each.id == key_id), None)
        if key is None:
            raise NotFoundError(f"No key has the id {key_id!r}. `gircse keys list` shows them.")
        self._accounts.revoke_key(key_id)
        self._authorizer.note("key.revoked", key_id, {"user": key.user})

    def _within_or_own(self, principal: Principal, name: str) -> User:
        """A key may reach less than its owner does, to whom it gives no more than it has."""
        return self._accounts.user(name) if name == principal.name else self._within(principal, name)

    def _latest_end(self, principal: Principal, wanted: datetime | None) -> datetime | None:
        maker = None if principal.key_id is None else self._accounts.key(principal.key_id)
        if maker is None or maker.expires_at is None:
            return wanted
        if wanted is not None and wanted > maker.expires_at:
            raise ForbiddenError(
                f"Nobody gives more than they have: this key ends at {maker.expires_at:%Y-%m-%d %H:%M}."
            )
        return wanted or maker.expires_at

    # What was noted

    def audit_entries(
        self, *, actions: Sequence[str] = (), actor: str | None = None, limit: int = 100, offset: int = 0
    ) -> list[AuditEntry]:
        return self._ledger.audit_entries(actions=actions, actor=actor, limit=limit, offset=offset)
