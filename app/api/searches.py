"""The caller's own saved searches and search history over HTTP."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.paging import PAGE_HEADERS, Page
from app.api.search_schemas import NewSavedSearch, NewSearchName, PastSearchAnswer, SavedSearchAnswer
from app.ports.searches import OwnSearches
from app.types.searches import PastSearch, SavedSearch


def saved_search_routes(searches: OwnSearches) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["search"])

    @routes.get("/saved-searches", response_model=list[SavedSearchAnswer], responses=PAGE_HEADERS)
    def list_saved_searches(page: Page) -> list[SavedSearch]:
        """Lists your saved searches by name. `request` is a body for `POST /api/v1/search`."""
        return page.of(searches.saved())

    @routes.post("/saved-searches", response_model=SavedSearchAnswer)
    def save_search(new: NewSavedSearch) -> SavedSearch:
        """Saves a search under a name, visible to you only. Replaces your saved search of the same name."""
        request = new.request.model_dump(mode="json", exclude_unset=True)
        collection = new.request.model_dump(include={"collection"})  # also where it is the default one
        return searches.save(new.name, request | collection)

    @routes.get("/saved-searches/{search_id}", response_model=SavedSearchAnswer)
    def show_saved_search(search_id: str) -> SavedSearch:
        """One of your saved searches, by id or name."""
        return searches.find(search_id)

    @routes.patch("/saved-searches/{search_id}", response_model=SavedSearchAnswer)
    def rename_saved_search(search_id: str, new: NewSearchName) -> SavedSearch:
        """Renames one of your saved searches, by id or name. Its alert and the matches found so far stay."""
        return searches.rename(search_id, new.name)

    @routes.delete("/saved-searches/{search_id}", status_code=204)
    def delete_saved_search(search_id: str) -> None:
        """Deletes one of your saved searches, by id or name, with its alert."""
        searches.delete(searches.find(search_id).id)

    @routes.get("/history", response_model=list[PastSearchAnswer], responses=PAGE_HEADERS)
    def list_history(page: Page) -> list[PastSearch]:
        """Lists your searches on the web pages, newest first: one entry per query, instruction and collection.

        Searches through the API are not recorded. Empty if GIRCSE_SEARCH_HISTORY is 0.
        """
        return page.of(searches.history())

    @routes.delete("/history", status_code=204)
    def clear_history() -> None:
        """Deletes your whole history."""
        searches.forget()

    @routes.delete("/history/{search_id}", status_code=204)
    def forget_search(search_id: str) -> None:
        """Deletes one entry of your history."""
        searches.forget(search_id)

    return routes
