"""Saved searches and search history of each user."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from app.errors import (
    CatalogUnavailableError,
    ConflictError,
    ForbiddenError,
    InputError,
    NotFoundError,
    UnknownSavedSearchError,
)
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

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlSearches


class RecordedSearches:
    """The caller's own saved searches and history.

    owner: returns the caller's user, or raises LoginRequiredError.
    reaches: whether the caller may see a collection. A key limited to some collections sees and changes only its user's
    searches of these.
    """

    def __init__(
        self,
        records: SqlSearches,
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
        found = [saved for saved in self._records.saved_searches(self._owner()) if self._is_reached(saved.request)]
        return [replace(saved, request=_encodable(saved.request)) for saved in found]

    def find(self, search: str) -> SavedSearch:
        """Finds by id or name."""
        visible = self.saved()
        for saved in visible:
            if search in (saved.id, saved.name):
                return saved
        raise UnknownSavedSearchError(search[:MAX_SEARCH_NAME_CHARACTERS], [saved.name for saved in visible])

    def save(self, name: str, request: SearchQuestion) -> SavedSearch:
        name = _checked_name(name)
        if (size := len(json.dumps(request))) > MAX_REQUEST_CHARACTERS:
            raise InputError(f"The search has {size:,} characters; at most {MAX_REQUEST_CHARACTERS:,} can be saved.")
        owner = self._owner()
        if not self._is_reached(request):
            raise ForbiddenError("This key is limited to some collections: it can only save searches of these.")
        self._require_no_hidden(owner, name)
        return self._records.save_search(owner, name, request)

    def rename(self, search: str, name: str) -> SavedSearch:
        name, owner, found = _checked_name(name), self._owner(), self.find(search)
        self._require_no_hidden(owner, name)
        return self._records.rename_search(owner, found.id, name)

    def delete(self, search_id: str) -> None:
        owner = self._owner()
        if not self._is_reached(self._records.saved_search(owner, search_id).request):
            raise UnknownSavedSearchError(search_id[:MAX_SEARCH_NAME_CHARACTERS], [])
        self._records.delete_saved_search(owner, search_id)

    def history(self) -> list[PastSearch]:
        owner = self._owner()
        past = self._records.past_searches(owner, limit=self.history_limit) if self.history_limit else []
        found = [search for search in past if self._is_reached(search.request)]
        return [replace(search, request=_encodable(search.request)) for search in found]

    def record(self, request: SearchRequest) -> None:
        """Adds to the history, unless the request is too long or the catalog is locked. If the history is switched off,
        deletes what was recorded before."""
        owner, question = self._owner(), question_of(request)
        with suppress(CatalogUnavailableError):  # the search has been answered
            if self.history_limit:
                if len(json.dumps(question)) <= MAX_REQUEST_CHARACTERS:
                    self._records.record_search(owner, question, keep=self.history_limit)
            elif self._records.past_searches(owner, limit=1):
                self._records.forget_searches(owner)

    def forget(self, search_id: str | None = None) -> int:
        """Deletes one search of the history, or all that the caller sees. Returns how many; NotFoundError for an
        unknown id."""
        owner = self._owner()
        hidden = {search.id for search in self._past(owner) if not self._is_reached(search.request)}
        if search_id is None and hidden:
            ids = [search.id for search in self._past(owner) if search.id not in hidden]
            return sum(self._records.forget_searches(owner, past_id) for past_id in ids)
        forgotten = 0 if search_id in hidden else self._records.forget_searches(owner, search_id)
        if search_id is not None and not forgotten:
            raise NotFoundError(f"Your history has no search with the id {search_id!r}.")
        return forgotten

    def _require_no_hidden(self, owner: str, name: str) -> None:
        """Raises ConflictError if a search that this key cannot see has the name."""
        same = [saved for saved in self._records.saved_searches(owner) if saved.name == name]
        if any(not self._is_reached(saved.request) for saved in same):
            raise ConflictError(f"The name {name!r} belongs to a search that this key cannot see; choose another name.")

    def _past(self, owner: str) -> list[PastSearch]:
        return self._records.past_searches(owner, limit=max(1, self.history_limit))

    def _is_reached(self, request: SearchQuestion) -> bool:
        return self._reaches(str(request.get("collection", "")))


def _checked_name(name: str) -> str:
    """Without spaces at its ends. Raises InputError."""
    name = require_text(name, name="name of the search").strip()
    if not name or len(name) > MAX_SEARCH_NAME_CHARACTERS or any(map(_is_control, name)):
        raise InputError(
            f"{name[:MAX_SEARCH_NAME_CHARACTERS]!r} cannot name a search: use 1 to {MAX_SEARCH_NAME_CHARACTERS} "
            "characters of one line."
        )
    return name


def _encodable(request: SearchQuestion) -> SearchQuestion:
    """The request with U+FFFD for lone surrogates, which earlier releases stored and no response can contain."""
    text = json.dumps(request, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        whole: SearchQuestion = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        return whole
    return request


def _is_control(character: str) -> bool:
    return unicodedata.category(character).startswith(("C", "Zl", "Zp"))
