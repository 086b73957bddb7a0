"""Port: the caller's saved and past searches, for interfaces."""

from __future__ import annotations

from typing import Protocol

from app.types.search import SearchRequest
from app.types.searches import PastSearch, SavedSearch, SearchQuestion


class OwnSearches(Protocol):
    """Saved and past searches of the caller."""

    @property
    def history_limit(self) -> int:
        """0 if no history is kept."""
        ...

    def saved(self) -> list[SavedSearch]: ...
    def find(self, search: str) -> SavedSearch:
        """By id or name. Raises NotFoundError."""
        ...

    def save(self, name: str, request: SearchQuestion) -> SavedSearch:
        """Replaces a saved search of the same name. Raises InputError and ConflictError."""
        ...

    def rename(self, search: str, name: str) -> SavedSearch:
        """By id or name. Raises NotFoundError, InputError, and ConflictError if the name is taken."""
        ...

    def delete(self, search_id: str) -> None: ...
    def history(self) -> list[PastSearch]:
        """Newest first."""
        ...

    def record(self, request: SearchRequest) -> None: ...
    def forget(self, search_id: str | None = None) -> int:
        """Delete one past search, or all. Raises NotFoundError for an unknown one."""
        ...
