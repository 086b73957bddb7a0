"""How much a user may store and ask, and how much that is already. Knows no database and no HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

QuotaName = Literal["bytes", "documents", "requests"]
QUOTA_NAMES: tuple[QuotaName, ...] = get_args(QuotaName)
UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Quotas:
    """Of one user. None: as the settings have it; UNLIMITED: whatever they say."""

    bytes: int | None = None
    documents: int | None = None
    requests: int | None = None  # a minute


AS_SET = Quotas()


@dataclass(frozen=True, slots=True)
class Allowance:
    """On whose account documents are stored, and how much that user may hold with them. None: any number."""

    user: str
    max_bytes: int | None = None
    max_documents: int | None = None
    contact: str = ""


@dataclass(frozen=True, slots=True)
class StoredAmount:
    """What the documents are that a user brought; `largest` has so many bytes."""

    bytes: int
    documents: int
    largest: int


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """`limit` None: there is none."""

    quota: QuotaName
    used: int
    limit: int | None


def in_bytes(count: int) -> str:
    """As people write it: 12.5 MB."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"
