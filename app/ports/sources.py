"""Sources that come again: what the catalog keeps of them, who reads them, and what interfaces may ask. Ports."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from app.types.sources import Fetched, Listing, Mark, RecurringSource, Round, SourceKind


class RecurringSourceLedger(Protocol):
    """A part of `Ledger`."""

    def recurring_sources(self, collection: str) -> list[RecurringSource]:
        """In the order of addresses. Raises UnknownCollectionError."""
        ...

    def recurring_source(self, source_id: str) -> RecurringSource:
        """Raises NotFoundError."""
        ...

    def add_recurring_source(
        self, collection: str, kind: SourceKind, address: str, *, every: timedelta, removes: bool, owner: str
    ) -> RecurringSource:
        """Due at once. One of this address is changed. Raises UnknownCollectionError and ConflictError."""
        ...

    def delete_recurring_source(self, source_id: str) -> None:
        """Its documents stay."""
        ...

    def hurry_recurring_source(self, source_id: str) -> RecurringSource:
        """Due now."""
        ...

    def claim_recurring_source(self, *, lease: timedelta) -> RecurringSource | None: ...
    def prolong_recurring_source(self, source: RecurringSource, *, lease: timedelta) -> None:
        """Raises LeaseLostError."""
        ...

    def source_marks(self, source_id: str) -> dict[str, Mark]: ...
    def mark_item(self, source: RecurringSource, address: str, mark: Mark | None) -> None:
        """It is a document now, as of this mark; None: it is none any more. Raises LeaseLostError."""
        ...

    def end_round(self, source: RecurringSource, found: Round) -> None: ...


class SourceReader(Protocol):
    def items(self, kind: SourceKind, address: str) -> Listing:
        """Raises DocumentError."""
        ...

    def fetch(self, address: str, mark: Mark) -> Fetched | None:
        """None: it is as it was at this mark. Raises VanishedError where it is gone, and DocumentError."""
        ...


class RecurringSources(Protocol):
    def sources(self, collection: str) -> list[RecurringSource]: ...
    def add(
        self, collection: str, kind: SourceKind, address: str, *, every: timedelta, removes: bool
    ) -> RecurringSource: ...
    def delete(self, source_id: str) -> None: ...
    def hurry(self, source_id: str) -> RecurringSource: ...
