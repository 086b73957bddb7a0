"""Saved and past searches: what the catalog keeps of each person, and what interfaces ask of one's own. Ports."""

from __future__ import annotations

from typing import Protocol

from app.types.search import SearchRequest
from app.types.searches import PastSearch, SavedSearch, SearchQuestion


class SearchRecords(Protocol):
    """A part of `Ledger`. Of another owner's nothing is found."""

    def saved_searches(self, owner: str) -> list[SavedSearch]:
        """In the order of names."""
        ...

    def saved_search(self, owner: str, search_id: str) -> SavedSearch:
        """Raises NotFoundError."""
        ...

    def save_search(self, owner: str, name: str, request: SearchQuestion) -> SavedSearch:
        """One of the same name gets this request. Raises ConflictError where as many are saved as are kept."""
        ...

    def delete_saved_search(self, owner: str, search_id: str) -> None:
        """Raises NotFoundError."""
        ...

    def past_searches(self, owner: str, *, limit: int) -> list[PastSearch]:
        """The newest first."""
        ...

    def record_search(self, owner: str, request: SearchQuestion, *, keep: int) -> None:
        """In the place of one of the same query, instruction and collection; the oldest beyond `keep` go."""
        ...

    def forget_searches(self, owner: str, search_id: str | None = None) -> int:
        """Past ones: this one, or all. How many there were."""
        ...


class OwnSearches(Protocol):
    """Those of the caller."""

    @property
    def history_limit(self) -> int:
        """0: no history is kept."""
        ...

    def saved(self) -> list[SavedSearch]: ...
    def find(self, search: str) -> SavedSearch:
        """By its id or its name. Raises NotFoundError."""
        ...

    def save(self, name: str, request: SearchQuestion) -> SavedSearch:
        """One of the same name is replaced. Raises InputError and ConflictError."""
        ...

    def delete(self, search_id: str) -> None: ...
    def history(self) -> list[PastSearch]:
        """The newest first."""
        ...

    def record(self, request: SearchRequest) -> None: ...
    def forget(self, search_id: str | None = None) -> int:
        """Of the history this one, or all. Raises NotFoundError where this one is not in it."""
        ...
