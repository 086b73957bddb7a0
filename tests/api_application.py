"""The API over the services of a test, authorized as the wiring does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI

from app.access.authorized_services import AuthorizedServices, authorize
from app.api.main import create_app
from app.documents.fetching import BackgroundFetching
from app.documents.pages import DocumentPages
from app.maintenance.background_reindex import BackgroundReindexing
from app.services import Services
from app.types.documents import Source
from app.types.pages import PageWords
from ingest.readers import DEFAULT_LIMITS
from ingest.readers.document import page_of


class LocalRenderer:
    """The port `PageRenderer` in this very process."""

    def words(self, path: Path, *, media_type: str, page: int) -> PageWords:
        found = page_of(path, media_type, page, 0, DEFAULT_LIMITS)
        assert isinstance(found, PageWords)
        return found

    def image(self, path: Path, *, media_type: str, page: int, width: int) -> bytes:
        found = page_of(path, media_type, page, width, DEFAULT_LIMITS)
        assert isinstance(found, bytes)
        return found


def authorized(
    services: Services, *, fetching: BackgroundFetching | None = None, reindexing: BackgroundReindexing | None = None
) -> AuthorizedServices:
    return authorize(
        services,
        pages=DocumentPages(services.blobs, LocalRenderer(), cache_bytes=1_000_000),
        fetching=fetching or BackgroundFetching(services.catalog, services.library, read_url=_unread),
        reindexing=reindexing or BackgroundReindexing(services.catalog, open_reindexer=_unopened),
    )


def api_of(
    services: Services,
    *,
    fetching: BackgroundFetching | None = None,
    reindexing: BackgroundReindexing | None = None,
    **options: Any,
) -> FastAPI:
    return create_app(authorized(services, fetching=fetching, reindexing=reindexing), **options)


def _unread(url: str) -> Source:
    raise AssertionError(f"{url} is fetched")


def _unopened(is_stopping: object) -> Any:
    raise AssertionError("a collection is indexed anew")
