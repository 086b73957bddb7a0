"""The queue of pages to fetch into a collection, over HTTP: add URLs, list waiting and failed ones, retry, remove."""

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
        """Lists pages that are waiting, being fetched or failed. Fetched pages are documents and not listed here."""
        return fetching.fetches(catalog.collection(name).name)

    @routes.post("", status_code=202, response_model=list[FetchAnswer])
    def fetch_urls(name: str, new: NewFetches) -> list[Fetch]:
        """Queues pages to be fetched. If one URL is invalid, none is queued."""
        fetching.add(catalog.collection(name).name, new.urls)
        return fetching.fetches(catalog.collection(name).name)

    @routes.post("/retry", status_code=202, response_model=list[FetchAnswer])
    def retry_fetch(name: str, wanted: FetchedUrl) -> list[Fetch]:
        """Retries a page that could not be fetched."""
        fetching.retry(catalog.collection(name).name, wanted.url)
        return fetching.fetches(catalog.collection(name).name)

    @routes.delete("", status_code=204)
    def forget_fetch(
        name: str, url: Annotated[str, Query(max_length=2000, description="URL of a failed page.")]
    ) -> None:
        """Removes a failed page from the list."""
        fetching.forget(catalog.collection(name).name, url)

    return routes
