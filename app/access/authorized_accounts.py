"""Users, keys and the audit log behind the authorizer: admins manage all of them, users their own keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from app.access.accounts import Accounts
from app.access.authorizer import Authorizer
from app.errors import ForbiddenError, NotFoundError
from app.ports.access import AccessLedger
from app.types.access import EVERYTHING, ApiKey, AuditEntry, Principal, Role, User


class AuthorizedAccounts:
    def __init__(self, accounts: Accounts, ledger: AccessLedger, authorizer: Authorizer) -> None:
        self._accounts = accounts
        self._ledger = ledger
        self._authorizer = authorizer

    def me(self) -> Principal:
        return self._authorizer.require_role()

    # Users

    def users(self) -> list[User]:
        self._authorizer.require_role(Role.ADMIN)
        return self._accounts.users()

    def user(self, name: str) -> User:
        self._authorizer.require_role(Role.ADMIN)
        return self._accounts.user(name)

    def add_user(
        self, name: str, *, role: Role, collections: Iterable[str] = EVERYTHING, password: str | None = None
    ) -> User:
        self._authorizer.require_role(Role.ADMIN)
        user = self._accounts.add_user(name, role=role, collections=collections, password=password)
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
    ) -> User:
        self._authorizer.require_role(Role.ADMIN)
        user = self._accounts.change_user(
            name, role=role, collections=collections, is_disabled=is_disabled, password=password
        )
        state = "disabled" if user.disabled_at else "enabled"
        self._authorizer.note("user.changed", name, {"role": user.role.label, "state": state})
        return user

    def change_own_password(self, current: str, new: str) -> None:
        """Raises ForbiddenError when the current one is wrong, or a key asks."""
        principal = self._authorizer.require_role()
        if principal.key_id is not None or not self._accounts.check_password(principal.name, current):
            self._authorizer.note("password.refused", principal.name)
            raise ForbiddenError("The present password is wrong, or a key asks. Only its owner changes a password.")
        self._accounts.change_user(principal.name, password=new)
        self._authorizer.note("password.changed", principal.name)

    def remove_user(self, name: str) -> None:
        self._authorizer.require_role(Role.ADMIN)
        self._accounts.remove_user(name)
        self._authorizer.note("user.removed", name)

    # Keys

    def api_keys(self) -> list[ApiKey]:
        """Admins see all of them, users their own."""
        principal = self._authorizer.require_role()
        return self._accounts.api_keys(None if principal.role is Role.ADMIN else principal.name)

    def add_key(
        self,
        user: str | None = None,
        *,
        label: str = "",
        role: Role | None = None,
        collections: Iterable[str] = EVERYTHING,
        expires_at: datetime | None = None,
    ) -> tuple[ApiKey, str]:
        """For the caller; admins may name another user. A key makes no key, unless it is an admin's."""
        principal = self._authorizer.require_role()
        owner = user or principal.name
        if principal.role is not Role.ADMIN and (owner != principal.name or principal.key_id is not None):
            raise ForbiddenError("Only admins make keys for others, and a key makes no other key.")
        key, secret = self._accounts.add_key(
            owner, label=label, role=role, collections=collections, expires_at=expires_at
        )
        self._authorizer.note("key.added", key.id, {"user": owner, "role": key.role.label})
        return key, secret

    def revoke_key(self, key_id: str) -> None:
        principal = self._authorizer.require_role()
        key = self._accounts.key(key_id)
        if key is None or (principal.role is not Role.ADMIN and key.user != principal.name):
            raise NotFoundError(f"No key has the id {key_id!r}. `gircse keys list` shows them.")
        self._accounts.revoke_key(key_id)
        self._authorizer.note("key.revoked", key_id, {"user": key.user})

    # What was noted

    def audit_entries(
        self, *, actions: Sequence[str] = (), actor: str | None = None, limit: int = 100, offset: int = 0
    ) -> list[AuditEntry]:
        self._authorizer.require_role(Role.ADMIN)
        return self._ledger.audit_entries(actions=actions, actor=actor, limit=limit, offset=offset)
