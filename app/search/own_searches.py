"""Saved searches and the history of searches, each person's their own."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable

from app.errors import InputError, NotFoundError
from app.ports.searches import SearchRecords
from app.types.documents import require_text
from app.types.search import SearchRequest
from app.types.searches import (
    MAX_REQUEST_CHARACTERS,
    MAX_SEARCH_NAME_CHARACTERS,
    PastSearch,
    SavedSearch,
    SearchQuestion,
    question_of,
)


class OwnSearches:
    """`owner` tells whose they are, and raises LoginRequiredError where nobody is known."""

    def __init__(self, records: SearchRecords, *, owner: Callable[[], str], history_limit: int) -> None:
        self._records = records
        self._owner = owner
        self.history_limit = history_limit

    def saved(self) -> list[SavedSearch]:
        return self._records.saved_searches(self._owner())

    def find(self, search: str) -> SavedSearch:
        for each in self.saved():
            if search in (each.id, each.name):
                return each
        raise NotFoundError(f"You have no saved search {search[:MAX_SEARCH_NAME_CHARACTERS]!r}.")

    def save(self, name: str, request: SearchQuestion) -> SavedSearch:
        name = require_text(name, name="name of the search").strip()
        if not name or len(name) > MAX_SEARCH_NAME_CHARACTERS or any(map(_is_control, name)):
            raise InputError(
                f"{name[:MAX_SEARCH_NAME_CHARACTERS]!r} cannot name a search: use 1 to {MAX_SEARCH_NAME_CHARACTERS} "
                "characters of one line."
            )
        if (size := len(json.dumps(request))) > MAX_REQUEST_CHARACTERS:
            raise InputError(f"The search is {size:,} characters long; at most {MAX_REQUEST_CHARACTERS:,} are kept.")
        return self._records.save_search(self._owner(), name, request)

    def delete(self, search_id: str) -> None:
        self._records.delete_saved_search(self._owner(), search_id)

    def history(self) -> list[PastSearch]:
        owner = self._owner()
        return self._records.past_searches(owner, limit=self.history_limit) if self.history_limit else []

    def record(self, request: SearchRequest) -> None:
        owner, question = self._owner(), question_of(request)
        if self.history_limit:
            if len(json.dumps(question)) <= MAX_REQUEST_CHARACTERS:
                self._records.record_search(owner, question, keep=self.history_limit)
        elif self._records.past_searches(owner, limit=1):  # of before it was switched off
            self._records.forget_searches(owner)

    def forget(self, search_id: str | None = None) -> int:
        forgotten = self._records.forget_searches(self._owner(), search_id)
        if search_id is not None and not forgotten:
            raise NotFoundError(f"Your history has no search with the id {search_id!r}.")
        return forgotten


def _is_control(character: str) -> bool:
    return unicodedata.category(character).startswith(("C", "Zl", "Zp"))
