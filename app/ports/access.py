"""What access control needs of the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from app.types.access import ApiKey, AttemptCount, AuditEntry, Identity, User, UserChange, WebSession
from app.types.claims import Claims
from app.types.quotas import StoredAmount


class IdentityProvider(Protocol):
    """Who says who somebody is. Its errors are for the log."""

    @property
    def issuer(self) -> str: ...
    def authorization_url(self, *, state: str, nonce: str, verifier: str) -> str:
        """Where a browser goes to sign in. Raises ProviderUnavailableError."""
        ...

    def claims(self, code: str, *, issuer: str | None, nonce: str, verifier: str) -> Claims:
        """Of the person whose browser came back with this code, and with this issuer if it named one. Raises
        UntrustedSignInError and ProviderUnavailableError."""
        ...


class AccessLedger(Protocol):
    """Users, their keys and sessions, and the audit log. A part of the catalog."""

    def users(self) -> list[User]:
        """In the order of names."""
        ...

    def user(self, name: str) -> User:
        """Raises UnknownUserError."""
        ...

    def add_user(self, user: User, *, identity: Identity | None = None) -> None:
        """Connected with the identity, in one transaction. Raises ConflictError when the name is taken, or the identity
        is another user's."""
        ...

    def change_user(self, name: str, change: UserChange, *, only_password: str | None = None) -> User:
        """As the user is afterwards. `only_password`: the hash that this enabled user must still have. Raises
        UnknownUserError."""
        ...

    def delete_user(self, name: str) -> None:
        """With all keys, sessions, identities and searches. Raises UnknownUserError."""
        ...

    def user_of(self, identity: Identity) -> str | None: ...
    def identities(self, user: str | None = None) -> list[tuple[Identity, str]]:
        """Each with its user, in the order of users."""
        ...

    def connect_user(self, name: str, identity: Identity) -> None:
        """Raises UnknownUserError, and ConflictError when the identity is another user's."""
        ...

    def disconnect_user(self, name: str) -> int:
        """From all identities; how many they were. Ends the user's sessions. Raises UnknownUserError."""
        ...

    def keys(self, user: str | None = None) -> list[ApiKey]:
        """The newest first, those that were revoked included."""
        ...

    def key(self, key_id: str) -> ApiKey | None: ...
    def add_key(self, key: ApiKey) -> None:
        """Raises UnknownUserError."""
        ...

    def revoke_key(self, key_id: str) -> None:
        """At once, for ever. Raises NotFoundError."""
        ...

    def add_session(self, session: WebSession) -> None:
        """Forgets those that have ended. Raises UnknownUserError for a user who is removed or disabled: who disables
        one at the same time ends this session, too."""
        ...

    def web_session(self, token_hash: str) -> WebSession | None: ...
    def web_sessions(self, user: str | None = None) -> list[WebSession]:
        """The last used first, those included that have ended and are not forgotten yet."""
        ...

    def use_session(self, token_hash: str, at: datetime) -> None: ...
    def end_sessions(self, token_hashes: Sequence[str]) -> None: ...
    def stored_amount(self, user: str) -> StoredAmount:
        """Of the documents that are on this user's account."""
        ...

    def attempts(self, counters: Sequence[str], *, since: datetime) -> dict[str, AttemptCount]:
        """Those that began after `since`."""
        ...

    def begin_attempt(self, counters: Sequence[str], *, at: datetime, since: datetime) -> dict[str, AttemptCount]:
        """Adds one to each, in one transaction; those that began before `since` begin anew, with 1. Forgets others of
        that age."""
        ...

    def forgive_attempt(self, counters: Sequence[str]) -> None:
        """Takes back one of each."""
        ...

    def note(self, entry: AuditEntry) -> None: ...
    def audit_entries(
        self, *, actions: Sequence[str] = (), actor: str | None = None, limit: int = 100, offset: int = 0
    ) -> list[AuditEntry]:
        """The newest first."""
        ...

    def count_noted(
        self, action: str, *, since: datetime, actor: str | None = None, subject: str | None = None
    ) -> int: ...
