"""Who is asking, and what that person or program may do. Plain values; knows no database and no HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from fnmatch import fnmatchcase

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


@dataclass(frozen=True, slots=True)
class Principal:
    """`collections` are names in which `*` stands for any characters; those of a key narrow its user's further."""

    name: str
    role: Role
    collections: tuple[str, ...] = EVERYTHING
    key_id: str | None = None  # None: a person's session
    key_collections: tuple[str, ...] = EVERYTHING

    @property
    def sees_everything(self) -> bool:
        return "*" in self.collections and "*" in self.key_collections

    def covers(self, collection: str) -> bool:
        return matches(collection, self.collections) and matches(collection, self.key_collections)


def matches(collection: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(collection, _literal(each)) for each in patterns)


OPERATOR = Principal("operator", Role.ADMIN)
"""Whoever runs commands on the machine itself, and everybody where access control is off."""

_current: ContextVar[Principal | None] = ContextVar("gircse_principal", default=None)


def current_principal() -> Principal | None:
    """On whose behalf this code runs. None: nobody has been let in, and nothing may be shown."""
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
