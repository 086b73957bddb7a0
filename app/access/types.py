"""Users, keys, sessions and what was noted of them, as they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from app.access.principal import EVERYTHING, Role


@dataclass(frozen=True, slots=True)
class User:
    """`password_hash` is Argon2's. None: this user has keys only; that of `admin` is the admin secret."""

    name: str
    role: Role
    created_at: datetime
    collections: tuple[str, ...] = EVERYTHING
    password_hash: str | None = None
    disabled_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """Never does more than its user may at the moment. Only the hash of its secret is kept."""

    id: str
    user: str
    label: str
    secret_hash: str
    role: Role
    created_at: datetime
    collections: tuple[str, ...] = EVERYTHING
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class WebSession:
    """`token_hash` is the SHA-256 of the cookie; `credential` that of what was logged in with, which may change."""

    token_hash: str
    user: str
    credential: str
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what, to what, from where."""

    at: datetime
    actor: str
    action: str
    subject: str
    detail: Mapping[str, str] = field(default_factory=dict)
