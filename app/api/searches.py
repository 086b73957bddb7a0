"""Saved searches and the history of searches over HTTP: each caller's own."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.paging import PAGE_HEADERS, Page
from app.api.search_schemas import NewSavedSearch, PastSearchAnswer, SavedSearchAnswer
from app.ports.searches import OwnSearches
from app.types.searches import PastSearch, SavedSearch


def saved_search_routes(searches: OwnSearches) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["search"])

    @routes.get("/saved-searches", response_model=list[SavedSearchAnswer], responses=PAGE_HEADERS)
    def list_saved_searches(page: Page) -> list[SavedSearch]:
        """Your saved searches, in the order of their names. `request` is what `POST /api/v1/search` takes."""
        return page.of(searches.saved())

    @routes.post("/saved-searches", response_model=SavedSearchAnswer)
    def save_search(new: NewSavedSearch) -> SavedSearch:
        """Saves a search under a name; yours of the same name is replaced. Nobody else sees it."""
        place = new.request.model_dump(include={"collection"})  # also where it is the default one
        return searches.save(new.name, new.request.model_dump(mode="json", exclude_unset=True) | place)

    @routes.get("/saved-searches/{search_id}", response_model=SavedSearchAnswer)
    def show_saved_search(search_id: str) -> SavedSearch:
        """A saved search of yours, by its id or its name."""
        return searches.find(search_id)

    @routes.delete("/saved-searches/{search_id}", status_code=204)
    def delete_saved_search(search_id: str) -> None:
        """Deletes a saved search of yours."""
        searches.delete(search_id)

    @routes.get("/history", response_model=list[PastSearchAnswer], responses=PAGE_HEADERS)
    def list_history(page: Page) -> list[PastSearch]:
        """What you searched for on the pages, the newest first; of one query, instruction and collection the latest.

        Searches by the API are not recorded. Empty where GIRCSE_SEARCH_HISTORY is 0.
        """
        return page.of(searches.history())

    @routes.delete("/history", status_code=204)
    def clear_history() -> None:
        """Forgets all of your history."""
        searches.forget()

    @routes.delete("/history/{search_id}", status_code=204)
    def forget_search(search_id: str) -> None:
        """Forgets one search of your history."""
        searches.forget(search_id)

    return routes
