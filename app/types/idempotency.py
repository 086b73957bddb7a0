"""Stored responses to requests with an idempotency key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """The record of an idempotency key. `digest` is of the request. `status` is None while the request is processed."""

    digest: str
    status: int | None
    body: str
