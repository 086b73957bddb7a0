"""Standing searches: what the catalog keeps of them, what ingestion asks, and what interfaces may ask. Ports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from app.types.standing import (
    Channel,
    News,
    StandingSearch,
    Watch,
)


class StandingSearches(Protocol):
    """Those of the caller."""

    def watch(self, search: str, watch: Watch) -> StandingSearch:
        """A saved search, by its id or its name, begins to keep watch, or goes on otherwise."""
        ...

    def unwatch(self, search: str) -> None:
        """What it found is forgotten."""
        ...

    def standing(self) -> list[StandingSearch]: ...
    def find(self, search: str) -> StandingSearch: ...
    def renew_feed(self, search: str) -> StandingSearch: ...
    def news(self, search: str, *, unseen_only: bool = True, limit: int = ..., offset: int = ...) -> list[News]:
        """What it found, the newest first."""
        ...

    def mark_seen(self, search: str, chunk_ids: Sequence[str] | None = None) -> int:
        """These, or all; how many were new."""
        ...

    def failures(self, searches: Iterable[StandingSearch]) -> dict[str, dict[Channel, str]]:
        """By id and channel why the newest delivery has not arrived."""
        ...

    def alerts(self) -> list[str]:
        """Names of the targets that the caller may choose."""
        ...

    def feed(self, token: str) -> tuple[StandingSearch, list[News]]:
        """Of nobody in particular: who knows the address may read, as long as its owner may."""
        ...
