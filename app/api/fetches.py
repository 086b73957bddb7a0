"""Pages on their way into a collection, over HTTP: have them fetched, see which wait or failed, retry, forget."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.api.schemas import FetchAnswer, FetchedUrl, NewFetches
from app.ports.catalog import Catalog
from app.ports.services import Fetching
from app.types.upkeep import Fetch


def fetch_routes(catalog: Catalog, fetching: Fetching) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/collections/{name}/fetches", tags=["fetches"])

    @routes.get("", response_model=list[FetchAnswer])
    def list_fetches(name: str) -> list[Fetch]:
        """Pages that wait, are being fetched, or failed; what was fetched is a document, and no longer here."""
        return fetching.fetches(catalog.collection(name).name)

    @routes.post("", status_code=202, response_model=list[FetchAnswer])
    def fetch_urls(name: str, new: NewFetches) -> list[Fetch]:
        """Has pages fetched, a few at a time; none of them when one can be no document's address."""
        fetching.add(catalog.collection(name).name, new.urls)
        return fetching.fetches(catalog.collection(name).name)

    @routes.post("/retry", status_code=202, response_model=list[FetchAnswer])
    def retry_fetch(name: str, wanted: FetchedUrl) -> list[Fetch]:
        """Fetches a page again that could not be had."""
        fetching.retry(catalog.collection(name).name, wanted.url)
        return fetching.fetches(catalog.collection(name).name)

    @routes.delete("", status_code=204)
    def forget_fetch(name: str, url: Annotated[str, Query(max_length=2000, description="One that failed.")]) -> None:
        """Takes what failed from the list."""
        fetching.forget(catalog.collection(name).name, url)

    return routes
