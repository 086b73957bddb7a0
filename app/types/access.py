"""Who asks and what they may do; users, keys, sessions and the security log. Knows no database and no HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from fnmatch import fnmatchcase

from app.types.quotas import AS_SET, Quotas

EVERYTHING = ("*",)


class Role(IntEnum):
    """Each may do all that the one before it may."""

    READER = 1  # search, read documents, see jobs
    EDITOR = 2  # add and delete documents, judge, save lenses, make, change and delete collections
    ADMIN = 3  # users, keys of others, the audit log

    @property
    def label(self) -> str:
        return self.name.lower()


class RoleName(StrEnum):
    """As people write a role."""

    READER = "reader"
    EDITOR = "editor"
    ADMIN = "admin"

    @property
    def role(self) -> Role:
        return Role[self.name]


class Scope(StrEnum):
    """What a key may do only if it was made for it."""

    ACCESS = "access"  # see to users and keys, as far as its user may


@dataclass(frozen=True, slots=True)
class Principal:
    """`collections` are names in which `*` stands for any characters; those of a key narrow its user's further."""

    name: str
    role: Role
    collections: tuple[str, ...] = EVERYTHING
    key_id: str | None = None  # None: a person's session
    key_collections: tuple[str, ...] = EVERYTHING
    scopes: tuple[Scope, ...] = ()  # of the key
    session_id: str | None = None
    quotas: Quotas = AS_SET
    is_operator: bool = False  # never a user, whatever a user is called

    @property
    def sees_everything(self) -> bool:
        return "*" in self.collections and "*" in self.key_collections

    def has_scope(self, scope: Scope) -> bool:
        """A session has all of them."""
        return self.key_id is None or scope in self.scopes

    def covers(self, collection: str) -> bool:
        """Of a pattern: whether all that it can match is covered. Its `*` is a character that only a `*` matches."""
        return matches(collection, self.collections) and matches(collection, self.key_collections)


def matches(collection: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(collection, _literal(each)) for each in patterns)


@dataclass(frozen=True, slots=True)
class User:
    """`password_hash` is Argon2's. None: this user has keys only; that of `admin` is the admin secret."""

    name: str
    role: Role
    created_at: datetime
    collections: tuple[str, ...] = EVERYTHING
    password_hash: str | None = None
    disabled_at: datetime | None = None
    quotas: Quotas = AS_SET


@dataclass(frozen=True, slots=True)
class UserChange:
    """What is None stays as it is at that moment. Only columns that are named are written, in one statement, so that of
    two changes at the same time neither is lost."""

    role: Role | None = None
    collections: tuple[str, ...] | None = None
    password_hash: str | None = None
    is_disabled: bool | None = None  # ends all sessions
    quotas: Quotas | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """As whom an OpenID provider knows a person: `subject` is never given to another one there."""

    issuer: str
    subject: str


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
    scopes: tuple[Scope, ...] = ()

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class WebSession:
    """`token_hash` is the SHA-256 of the cookie; `credential` that of what was logged in with, which may change. People
    name it by `id`; `browser` is in words, and `used_at` up to a minute old."""

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
        """`idle`: so long it may lie unused."""
        return self.expires_at <= now or (idle is not None and self.used_at + idle <= now)


@dataclass(frozen=True, slots=True)
class AttemptCount:
    """Failed attempts to come in, and those that are being checked, since `began_at`."""

    began_at: datetime
    failures: int


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what, to what, from where."""

    at: datetime
    actor: str
    action: str
    subject: str
    detail: Mapping[str, str] = field(default_factory=dict)


OPERATOR = Principal("operator", Role.ADMIN, is_operator=True)
"""The user of the command line, and every client where access control is off. No user can have the name."""


def is_of_operator(owner: str) -> bool:
    """Of what is kept with the name of its owner."""
    return owner == OPERATOR.name


def may_see(users: Mapping[str, User], name: str, collection: str) -> bool:
    """Whether this person, who is not here to be asked, may read the collection at this moment."""
    user = users.get(name)
    if user is None:
        return is_of_operator(name)
    return user.disabled_at is None and matches(collection, user.collections)


_current: ContextVar[Principal | None] = ContextVar("gircse_principal", default=None)


def current_principal() -> Principal | None:
    """The principal on whose behalf this code runs. None: not authenticated, nothing may be shown."""
    return _current.get()


@contextmanager
def acting_as(principal: Principal) -> Iterator[None]:
    """Threads and tasks that the block starts inherit it; a queue's workers, started before, do not."""
    token = _current.set(principal)
    try:
        yield
    finally:
        _current.reset(token)


def _literal(pattern: str) -> str:
    """Only `*` is special: `?` and `[` stand for themselves."""
    return "".join(f"[{each}]" if each in "?[" else each for each in pattern)
