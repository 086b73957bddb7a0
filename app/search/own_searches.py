"""Saved searches and the history of searches, each person's their own."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable

from app.errors import ConflictError, ForbiddenError, InputError, NotFoundError
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
    """`owner` tells whose they are, and raises LoginRequiredError where nobody is known. `reaches` tells whether the
    caller may hear of a collection: a key that is limited to some sees and changes its user's searches of these alone.
    """

    def __init__(
        self,
        records: SearchRecords,
        *,
        owner: Callable[[], str],
        history_limit: int,
        reaches: Callable[[str], bool] = lambda collection: True,
    ) -> None:
        self._records = records
        self._owner = owner
        self._reaches = reaches
        self.history_limit = history_limit

    def saved(self) -> list[SavedSearch]:
        return [each for each in self._records.saved_searches(self._owner()) if self._is_reached(each.request)]

    def find(self, search: str) -> SavedSearch:
        for each in self.saved():
            if search in (each.id, each.name):
                return each
        raise _unknown(search)

    def save(self, name: str, request: SearchQuestion) -> SavedSearch:
        name = require_text(name, name="name of the search").strip()
        if not name or len(name) > MAX_SEARCH_NAME_CHARACTERS or any(map(_is_control, name)):
            raise InputError(
                f"{name[:MAX_SEARCH_NAME_CHARACTERS]!r} cannot name a search: use 1 to {MAX_SEARCH_NAME_CHARACTERS} "
                "characters of one line."
            )
        if (size := len(json.dumps(request))) > MAX_REQUEST_CHARACTERS:
            raise InputError(f"The search is {size:,} characters long; at most {MAX_REQUEST_CHARACTERS:,} are kept.")
        owner = self._owner()
        if not self._is_reached(request):
            raise ForbiddenError("A key that is limited to collections saves searches of these alone.")
        if any(
            each.name == name and not self._is_reached(each.request) for each in self._records.saved_searches(owner)
        ):
            raise ConflictError(f"The name {name!r} is taken by a search that this key does not see; take another one.")
        return self._records.save_search(owner, name, request)

    def delete(self, search_id: str) -> None:
        owner = self._owner()
        if not self._is_reached(self._records.saved_search(owner, search_id).request):
            raise _unknown(search_id)
        self._records.delete_saved_search(owner, search_id)

    def history(self) -> list[PastSearch]:
        owner = self._owner()
        past = self._records.past_searches(owner, limit=self.history_limit) if self.history_limit else []
        return [each for each in past if self._is_reached(each.request)]

    def record(self, request: SearchRequest) -> None:
        owner, question = self._owner(), question_of(request)
        if self.history_limit:
            if len(json.dumps(question)) <= MAX_REQUEST_CHARACTERS:
                self._records.record_search(owner, question, keep=self.history_limit)
        elif self._records.past_searches(owner, limit=1):  # of before it was switched off
            self._records.forget_searches(owner)

    def forget(self, search_id: str | None = None) -> int:
        owner = self._owner()
        hidden = {each.id for each in self._past(owner) if not self._is_reached(each.request)}
        if search_id is None and hidden:
            ids = [each.id for each in self._past(owner) if each.id not in hidden]
            return sum(self._records.forget_searches(owner, each) for each in ids)
        forgotten = 0 if search_id in hidden else self._records.forget_searches(owner, search_id)
        if search_id is not None and not forgotten:
            raise NotFoundError(f"Your history has no search with the id {search_id!r}.")
        return forgotten

    def _past(self, owner: str) -> list[PastSearch]:
        return self._records.past_searches(owner, limit=max(1, self.history_limit))

    def _is_reached(self, request: SearchQuestion) -> bool:
        return self._reaches(str(request.get("collection", "")))


def _unknown(search: str) -> NotFoundError:
    return NotFoundError(f"You have no saved search {search[:MAX_SEARCH_NAME_CHARACTERS]!r}.")


def _is_control(character: str) -> bool:
    return unicodedata.category(character).startswith(("C", "Zl", "Zp"))
