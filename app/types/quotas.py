"""Quotas of users for storage and requests, and their use. Knows no database and no HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

QuotaName = Literal["bytes", "documents", "requests"]
QUOTA_NAMES: tuple[QuotaName, ...] = get_args(QuotaName)
UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Quotas:
    """Quotas of one user. None: the default of the settings; UNLIMITED: no limit, whatever the settings say."""

    bytes: int | None = None
    documents: int | None = None
    requests: int | None = None  # per minute


AS_SET = Quotas()


@dataclass(frozen=True, slots=True)
class Allowance:
    """The user to whom stored documents are charged, with this user's limits in total. None: no limit."""

    user: str
    max_bytes: int | None = None
    max_documents: int | None = None
    contact: str = ""


@dataclass(frozen=True, slots=True)
class StoredAmount:
    """Totals of the documents that a user added. `largest`: bytes of the largest one."""

    bytes: int
    documents: int
    largest: int


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """Use of one quota. `limit`: None if there is none."""

    quota: QuotaName
    used: int
    limit: int | None


def in_bytes(count: int) -> str:
    """Formats a size for people, for instance 12.5 MB."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"
