"""Standing searches: what the catalog keeps of them, what ingestion asks, and what interfaces may ask. Ports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Protocol

from app.types.standing import (
    Channel,
    Delivery,
    KeptMatch,
    News,
    PreparedSearch,
    StandingSearch,
    Watch,
)


class StandingLedger(Protocol):
    """Saved searches that keep watch. A part of `Ledger`. Of another owner's nothing is found."""

    def watch(self, owner: str, search_id: str, watch: Watch) -> StandingSearch:
        """From now on. Raises NotFoundError and UnknownCollectionError."""
        ...

    def unwatch(self, owner: str, search_id: str) -> None: ...
    def renew_feed(self, owner: str, search_id: str) -> StandingSearch: ...
    def standing_search(self, owner: str, search_id: str) -> StandingSearch: ...
    def standing_searches(self, owner: str) -> list[StandingSearch]:
        """In the order of names."""
        ...

    def standing_search_of_feed(self, token: str) -> StandingSearch:
        """Raises NotFoundError."""
        ...

    def standing_version(self, collection: str) -> int:
        """Another number whenever a search begins, changes or ends there; 0 where none ever stood."""
        ...

    def standing_in(self, collection: str) -> tuple[int, list[PreparedSearch]]: ...
    def prepare_standing(self, changes: Sequence[tuple[PreparedSearch, PreparedSearch]]) -> dict[str, PreparedSearch]:
        """Keeps the second of each pair where the first is still what is kept. By id what is kept now, which another
        worker may have prepared first: all are to ask with the same scale."""
        ...

    def known_chunks(self, index: str, document_ids: Sequence[str]) -> set[str]:
        """Ids of the chunks that these documents have had so far."""
        ...

    def matches(
        self, owner: str, search_id: str, *, unseen_only: bool = False, limit: int = 100, offset: int = 0
    ) -> list[KeptMatch]:
        """The newest first, without those of documents that are being deleted."""
        ...

    def mark_seen(self, owner: str, search_id: str, chunk_ids: Sequence[str] | None = None) -> int: ...
    def form_deliveries(self) -> int:
        """Puts what no delivery tells yet into new ones; how many."""
        ...

    def claim_delivery(self, *, lease: timedelta) -> Delivery | None: ...
    def delivered(self, delivery: Delivery) -> tuple[StandingSearch, list[KeptMatch]] | None:
        """What it tells; None where nobody watches any more."""
        ...

    def finish_delivery(self, delivery: Delivery, *, error: str | None = None) -> None: ...
    def put_off_delivery(self, delivery: Delivery, error: str, *, retry_in: timedelta) -> None: ...
    def delivery_failures(self, search_ids: Sequence[str]) -> dict[str, dict[Channel, str]]: ...


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
