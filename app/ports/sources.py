"""Ports of synced sources: readers, credentials, and the service for interfaces."""

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
        """None: unchanged since this mark. Raises VanishedError if the item is gone, and DocumentError."""
        ...


class SourceReader(Protocol):
    """Reads one kind of source."""

    def open(
        self, source: RecurringSource, marks: Mapping[str, ItemMark], *, beat: Callable[[], None]
    ) -> AbstractContextManager[OpenedSource]:
        """Open the source for one sync. Long operations call `beat` regularly; its errors end the sync.

        Raises InputError if the source's settings are invalid, and DocumentError if it is unreachable.
        """
        ...


class SourceCredentials(Protocol):
    """Credentials set up by the operator, each limited to addresses and users."""

    def names_for(self, user: str) -> list[str]: ...
    def find(self, name: str, *, user: str, address: str) -> Credentials:
        """Raises InputError if this user may not use credentials of this name for this address."""
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
        """Names of the credentials that the caller may use."""
        ...

    def delete(self, source_id: str) -> None: ...
    def hurry(self, source_id: str) -> RecurringSource: ...
