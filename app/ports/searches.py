"""A port: the saved and past searches of the caller, as interfaces see them."""

from __future__ import annotations

from typing import Protocol

from app.types.search import SearchRequest
from app.types.searches import PastSearch, SavedSearch, SearchQuestion


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
