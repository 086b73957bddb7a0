"""The API over the services of a test, authorized as the wiring does it."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from app.access.authorized_services import AuthorizedServices, authorize
from app.api.main import create_app
from app.collections.background_reindex import Reindexing
from app.collections.fetching import Fetching
from app.services import Services
from app.types.documents import Source


def authorized(
    services: Services, *, fetching: Fetching | None = None, reindexing: Reindexing | None = None
) -> AuthorizedServices:
    return authorize(
        services,
        fetching=fetching or Fetching(services.catalog, services.library, read_url=_unread),
        reindexing=reindexing or Reindexing(services.catalog, open_reindexer=_unopened),
    )


def api_of(
    services: Services, *, fetching: Fetching | None = None, reindexing: Reindexing | None = None, **options: Any
) -> FastAPI:
    return create_app(authorized(services, fetching=fetching, reindexing=reindexing), **options)


def _unread(url: str) -> Source:
    raise AssertionError(f"{url} is fetched")


def _unopened(is_stopping: object) -> Any:
    raise AssertionError("a collection is indexed anew")
