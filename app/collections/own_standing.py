"""Standing searches (saved searches that report new matches) of the caller, and their feeds with secret addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from app.collections.standing import check_watchable
from app.collections.standing_news import NewsReader
from app.errors import ConflictError, InputError, NotFoundError, UnknownSavedSearchError
from app.ports.parts import SearchedIndex
from app.search.questions import request_of
from app.types.access import may_see
from app.types.alerts import AlertTarget
from app.types.documents import require_text
from app.types.search import ALL_COLLECTIONS
from app.types.searches import MAX_SEARCH_NAME_CHARACTERS, SavedSearch
from app.types.standing import MAX_WEBHOOK_CHARACTERS, Channel, News, StandingSearch, Watch
from app.types.web_addresses import web_address

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

MAX_STANDING_SEARCHES = 100  # per user
FEED_ENTRIES = 50


class OwnStanding:
    """Manages the standing searches of one user.

    `owner` returns the user's name. `require_access` raises if the caller may not read a collection; `reaches` returns
    whether the caller may know of it.
    """

    def __init__(
        self,
        catalog: SqlCatalog,
        index: SearchedIndex | None,
        *,
        owner: Callable[[], str],
        require_access: Callable[[str], object],
        alerts: Mapping[str, AlertTarget],
        reaches: Callable[[str], bool] = lambda collection: True,
    ) -> None:
        """Without `index`, `news` and `feed` cannot be used: they read passages from it."""
        self._catalog = catalog
        self._news = None if index is None else NewsReader(catalog, index)
        self._owner = owner
        self._require_access = require_access
        self._alerts = alerts
        self._reaches = reaches

    def watch(self, search: str, watch: Watch) -> StandingSearch:
        saved = self._saved(search)
        collection = str(saved.request["collection"])
        if collection == ALL_COLLECTIONS:
            raise InputError("A search in all collections cannot be a standing search. Save it for one collection.")
        self._require_access(collection)
        check_watchable(request_of(saved.request, self._catalog))
        self._check_channels(watch)
        own = self._catalog.standing.of_owner(self._owner())
        if len(own) >= MAX_STANDING_SEARCHES and all(each.id != saved.id for each in own):
            raise ConflictError(f"You have {len(own)} standing searches, the maximum. Stop one of them first.")
        return self._catalog.standing.watch(self._owner(), saved.id, watch)

    def unwatch(self, search: str) -> None:
        self._catalog.standing.unwatch(self._owner(), self.find(search).id)

    def standing(self) -> list[StandingSearch]:
        return [each for each in self._catalog.standing.of_owner(self._owner()) if self._reaches(each.collection)]

    def find(self, search: str) -> StandingSearch:
        for each in self.standing():
            if search in (each.id, each.name):
                return each
        raise NotFoundError(f"You have no standing search {search[:MAX_SEARCH_NAME_CHARACTERS]!r}.")

    def renew_feed(self, search: str) -> StandingSearch:
        return self._catalog.standing.renew_feed(self._owner(), self.find(search).id)

    def news(self, search: str, *, unseen_only: bool = True, limit: int = 100, offset: int = 0) -> list[News]:
        found = self.find(search)
        self._require_access(found.collection)
        kept = self._catalog.standing.matches(
            found.owner, found.id, unseen_only=unseen_only, limit=limit, offset=offset
        )
        assert self._news is not None
        return self._news.read(found.collection, kept)

    def mark_seen(self, search: str, chunk_ids: Sequence[str] | None = None) -> int:
        return self._catalog.standing.mark_seen(self._owner(), self.find(search).id, chunk_ids)

    def failures(self, searches: Iterable[StandingSearch]) -> dict[str, dict[Channel, str]]:
        return self._catalog.deliveries.failures([each.id for each in searches])

    def alerts(self) -> list[str]:
        owner = self._owner()
        return sorted(name for name, target in self._alerts.items() if target.is_for(owner))

    def feed(self, token: str) -> tuple[StandingSearch, list[News]]:
        found = self._catalog.standing.of_feed(token)
        users = {user.name: user for user in self._catalog.access.users()}
        if not may_see(users, found.owner, found.collection):
            raise NotFoundError("No feed at this address; it may have been renewed.")
        kept = self._catalog.standing.matches(found.owner, found.id, limit=FEED_ENTRIES)
        assert self._news is not None
        return found, self._news.read(found.collection, kept)

    def _saved(self, search: str) -> SavedSearch:
        saved = self._catalog.searches.saved_searches(self._owner())
        reached = [each for each in saved if self._reaches(str(each.request["collection"]))]
        for each in reached:
            if search in (each.id, each.name):
                return each
        raise UnknownSavedSearchError(search[:MAX_SEARCH_NAME_CHARACTERS], [each.name for each in reached])

    def _check_channels(self, watch: Watch) -> None:
        if watch.webhook is not None:
            url = require_text(watch.webhook, name="webhook")
            parts = web_address(url)
            if parts is None or len(url) > MAX_WEBHOOK_CHARACTERS:
                raise InputError("The webhook is not a URL. Write it as https://host/path.")
            if parts.username is not None:
                raise InputError("The webhook contains a user name or password. Remove the part before the @.")
        if watch.alert is not None and watch.alert not in self.alerts():
            among = ", ".join(self.alerts()) or "none; GIRCSE_ALERTS_FILE names them"
            raise InputError(f"There is no alert {watch.alert[:80]!r} for you. There are: {among}.")
