"""Port: standing searches, for interfaces."""

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
    """Standing searches of the caller."""

    def watch(self, search: str, watch: Watch) -> StandingSearch:
        """Start or change monitoring with a saved search, by id or name."""
        ...

    def unwatch(self, search: str) -> None:
        """Stop monitoring; deletes the matches."""
        ...

    def standing(self) -> list[StandingSearch]: ...
    def find(self, search: str) -> StandingSearch: ...
    def renew_feed(self, search: str) -> StandingSearch: ...
    def news(self, search: str, *, unseen_only: bool = True, limit: int = ..., offset: int = ...) -> list[News]:
        """Matches, newest first."""
        ...

    def mark_seen(self, search: str, chunk_ids: Sequence[str] | None = None) -> int:
        """Mark these matches, or all, as seen; returns how many were new."""
        ...

    def failures(self, searches: Iterable[StandingSearch]) -> dict[str, dict[Channel, str]]:
        """By search id and channel, the error of the newest delivery if it has not arrived."""
        ...

    def alerts(self) -> list[str]:
        """Names of the notification targets that the caller may choose."""
        ...

    def feed(self, token: str) -> tuple[StandingSearch, list[News]]:
        """Needs no login: anyone with the address may read, as long as its owner may."""
        ...
