"""Sources that come again: what the catalog keeps of them, who reads them, and what interfaces may ask. Ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Protocol

from app.types.credentials import Credentials
from app.types.sources import Fetched, ItemMark, Listing, RecurringSource, SourceKind, SourceOptions


class OpenedSource(Protocol):
    def items(self) -> Listing:
        """Raises DocumentError."""
        ...

    def fetch(self, address: str, mark: ItemMark) -> Fetched | None:
        """None: it is as it was at this mark. Raises VanishedError where it is gone, and DocumentError."""
        ...


class SourceReader(Protocol):
    """Of one kind of source."""

    def open(
        self, source: RecurringSource, marks: Mapping[str, ItemMark], *, beat: Callable[[], None]
    ) -> AbstractContextManager[OpenedSource]:
        """For one round. `beat` is called now and then while something takes long; what it raises ends the round.

        Raises InputError where the source cannot be used as it is, and DocumentError where it cannot be reached.
        """
        ...


class SourceCredentials(Protocol):
    """Of the operator, who says where each may be sent, and for whom."""

    def names_for(self, user: str) -> list[str]: ...
    def find(self, name: str, *, user: str, address: str) -> Credentials:
        """Raises InputError where there are none of this name for this user and this address."""
        ...


class RecurringSources(Protocol):
    def sources(self, collection: str) -> list[RecurringSource]: ...
    def add(
        self,
        collection: str,
        kind: SourceKind,
        address: str,
        *,
        every: timedelta,
        removes: bool,
        options: SourceOptions = ...,
    ) -> RecurringSource: ...
    def credentials(self) -> list[str]:
        """Names of those that the caller may use."""
        ...

    def delete(self, source_id: str) -> None: ...
    def hurry(self, source_id: str) -> RecurringSource: ...
