"""Answers that were given to a request with a key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """What stands under an idempotency key; `digest` is of what was asked. Without a status it is being answered."""

    digest: str
    status: int | None
    body: str
