"""Principals, roles, users, keys, sessions and entries of the security log. Knows no database and no HTTP."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from fnmatch import fnmatchcase

from app.errors import GircseError, message_for_users
from app.types.quotas import AS_SET, Quotas

EVERYTHING = ("*",)
MIN_PASSWORD_CHARACTERS = 10
MAX_KEYS = 200  # valid ones per user; as many that are not are kept
MAX_SESSIONS = 100  # per user


class Role(IntEnum):
    """Roles in ascending order: each includes the rights of the lower ones."""

    READER = 1  # search, read documents, see jobs
    EDITOR = 2  # add and delete documents, judge, save lenses, make, change and delete collections
    ADMIN = 3  # users, keys of others, the audit log

    @property
    def label(self) -> str:
        return self.name.lower()


class RoleName(StrEnum):
    """Names of roles in requests, settings and commands."""

    READER = "reader"
    EDITOR = "editor"
    ADMIN = "admin"

    @property
    def role(self) -> Role:
        return Role[self.name]


class Scope(StrEnum):
    """Rights that a key has only if it was created with them."""

    ACCESS = "access"  # manage users and keys, as far as the key's user may


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller. `collections` are name patterns with `*`; a key's patterns (`key_collections`) restrict
    those of its user further."""

    name: str
    role: Role
    collections: tuple[str, ...] = EVERYTHING
    key_id: str | None = None  # None: a person's session
    key_collections: tuple[str, ...] = EVERYTHING
    scopes: tuple[Scope, ...] = ()  # of the key
    session_id: str | None = None
    quotas: Quotas = AS_SET
    is_operator: bool = False  # never True for a user, whatever its name

    @property
    def sees_everything(self) -> bool:
        return "*" in self.collections and "*" in self.key_collections

    def has_scope(self, scope: Scope) -> bool:
        """True for any scope in a session; for a key, if it has the scope."""
        return self.key_id is None or scope in self.scopes

    def covers(self, collection: str) -> bool:
        """Whether the caller may see a collection, or for a pattern, all collections that it can match: the pattern's
        `*` is treated as a character, which only a `*` matches."""
        return matches(collection, self.collections) and matches(collection, self.key_collections)


def matches(collection: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(collection, _literal(pattern)) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class User:
    """A user account. `password_hash` is by Argon2; None for a user with keys only. The password of `admin` is the
    admin secret."""

    name: str
    role: Role
    created_at: datetime
    collections: tuple[str, ...] = EVERYTHING
    password_hash: str | None = None
    disabled_at: datetime | None = None
    quotas: Quotas = AS_SET


@dataclass(frozen=True, slots=True)
class AccountChange:
    """A change of a user; None leaves a field unchanged. One SQL statement writes only the given columns, so that
    concurrent changes of different fields do not overwrite each other."""

    role: Role | None = None
    collections: tuple[str, ...] | None = None
    password_hash: str | None = None
    is_disabled: bool | None = None  # ends all sessions
    quotas: Quotas | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """A person's identity at an OpenID provider, which never reuses a `subject`."""

    issuer: str
    subject: str


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key. Its rights never exceed the current rights of its user. Only the hash of its secret is stored."""

    id: str
    user: str
    label: str
    secret_hash: str
    role: Role
    created_at: datetime
    collections: tuple[str, ...] = EVERYTHING
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    scopes: tuple[Scope, ...] = ()

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (
            self.expires_at is None or not _is_over(self.created_at, self.expires_at, now)
        )


@dataclass(frozen=True, slots=True)
class WebSession:
    """A login session. `token_hash`: SHA-256 of the cookie. `credential`: SHA-256 of the password or other credential
    used at login, which may have changed since. `id`: for people, not secret. `browser`: a readable description.
    `used_at`: up to a minute old."""

    token_hash: str
    user: str
    credential: str
    created_at: datetime
    expires_at: datetime
    id: str
    used_at: datetime
    address: str = ""
    browser: str = ""

    def has_ended(self, now: datetime, idle: timedelta | None) -> bool:
        """Whether the session has expired. idle: how long it may be unused; None for no limit."""
        is_idle = idle is not None and self.used_at + idle <= now
        return is_idle or _is_over(self.created_at, self.expires_at, now)


def _is_over(begin: datetime, end: datetime, now: datetime) -> bool:
    """Also true if it begins later than now by more than it lasts: it was made while the clock was ahead."""
    return end <= now or begin - now > end - begin


@dataclass(frozen=True, slots=True)
class AttemptCount:
    """Number of failed login attempts since `began_at`, including attempts still being checked."""

    began_at: datetime
    failures: int


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry of the security log: who did what, to what, from where."""

    at: datetime
    actor: str
    action: str
    subject: str
    detail: Mapping[str, str] = field(default_factory=dict)


OPERATOR = Principal("operator", Role.ADMIN, is_operator=True)
"""The user of the command line, and every client if access control is off. No user can have this name."""


def is_of_operator(owner: str) -> bool:
    """Whether a stored owner's name is the operator's."""
    return owner == OPERATOR.name


def may_see(users: Mapping[str, User], name: str, collection: str) -> bool:
    """Whether this user, who need not be the caller, may currently read the collection."""
    user = users.get(name)
    if user is None:
        return is_of_operator(name)
    return user.disabled_at is None and matches(collection, user.collections)


_log = logging.getLogger(__name__)
_current: ContextVar[Principal | None] = ContextVar("gircse_principal", default=None)


def current_principal() -> Principal | None:
    """The principal on whose behalf this code runs; None if not authenticated, which has no rights."""
    return _current.get()


def message_for_caller(error: GircseError) -> str:
    """The message of an error. Only administrators see addresses and paths of the service; the log has them for the
    other callers."""
    principal = current_principal()
    if principal is not None and principal.role is Role.ADMIN:
        return str(error)
    shown = message_for_users(error)
    if shown != str(error):
        _log.error("A request failed: %s", error)
    return shown


@contextmanager
def acting_as(principal: Principal) -> Iterator[None]:
    """Sets the current principal within the block. Tasks started inside inherit it; threads only if they run in a copy
    of the context."""
    token = _current.set(principal)
    try:
        yield
    finally:
        _current.reset(token)


def _literal(pattern: str) -> str:
    """Escapes `?` and `[` for fnmatch, so that only `*` is special."""
    return "".join(f"[{character}]" if character in "?[" else character for character in pattern)
