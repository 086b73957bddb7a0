"""Standing searches over HTTP: the caller's saved searches that report new matches, and their Atom feeds.

The address of a feed is secret and needs no login.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from app.api.atom import atom_feed
from app.api.base_schemas import RequestBody, ResponseBody
from app.api.paging import PAGE_HEADERS, Page
from app.ports.standing import StandingSearches
from app.types.search import Match
from app.types.standing import (
    MAX_WEBHOOK_CHARACTERS,
    Channel,
    News,
    StandingSearch,
    Strength,
    Watch,
)

FEEDS = "/feeds/"
MAX_NEWS = 500

AddressOf = Callable[[Request], str]  # the service's address without a final slash; "" if unknown


class NewWatch(RequestBody):
    strength: Strength = Field(default=Strength.FAIR, description="Minimum `match` of reported passages.")
    webhook: str | None = Field(
        default=None,
        max_length=MAX_WEBHOOK_CHARACTERS,
        description="URL to which each match is posted, signed with `webhook_secret` (https://www.standardwebhooks.com).",
    )
    alert: str | None = Field(default=None, description="Name of a mail or chat target in GIRCSE_ALERTS_FILE.")


class StandingAnswer(ResponseBody):
    id: str = Field(description="Id of the saved search.")
    name: str
    collection: str
    strength: Strength
    since: datetime
    unseen: int = Field(description="Number of matches not yet marked as seen.")
    feed: str = Field(
        description="Secret address of the Atom feed. Anyone who knows it can read the feed. "
        "Only its path if the server does not know its own address (GIRCSE_PUBLIC_URL).",
    )
    webhook: str | None
    webhook_secret: str
    alert: str | None
    error: str | None = Field(description="Why the search cannot run at present.")
    failures: dict[Channel, str] = Field(description="By channel: why the latest delivery failed.")


class NewsAnswer(ResponseBody):
    chunk_id: str
    document_id: str
    title: str
    uri: str
    text: str
    page: int | None
    start: int
    end: int
    score: float
    match: Match
    matched_at: datetime
    is_seen: bool


class SeenNews(RequestBody):
    chunk_ids: list[str] | None = Field(default=None, max_length=MAX_NEWS, description="Default: all.")


class MarkedAnswer(BaseModel):
    marked: int


def standing_routes(standing: StandingSearches, *, address_of: AddressOf) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["search"])

    def described(request: Request, *searches: StandingSearch) -> list[StandingAnswer]:
        failures = standing.failures(searches)
        base = address_of(request)
        return [standing_answer(search, base, failures.get(search.id, {})) for search in searches]

    @routes.get("/standing-searches", response_model=list[StandingAnswer], responses=PAGE_HEADERS)
    def list_standing_searches(request: Request, page: Page) -> list[StandingAnswer]:
        """Lists your standing searches (saved searches that report new matches) by name."""
        return described(request, *page.of(standing.standing()))

    @routes.put("/saved-searches/{search_id}/watch")
    def watch_saved_search(search_id: str, new: NewWatch, request: Request) -> StandingAnswer:
        """Makes a saved search of yours a standing search: from now on it reports matching new chunks.

        A second call replaces strength and channels.
        """
        watch = Watch(new.strength, (new.webhook or "").strip() or None, new.alert or None)
        return described(request, standing.watch(search_id, watch))[0]

    @routes.get("/saved-searches/{search_id}/watch")
    def show_standing_search(search_id: str, request: Request) -> StandingAnswer:
        """One of your standing searches: its minimum match, channels and errors."""
        return described(request, standing.find(search_id))[0]

    @routes.delete("/saved-searches/{search_id}/watch", status_code=204)
    def unwatch_saved_search(search_id: str) -> None:
        """Stops reporting and deletes the matches found so far. The saved search is kept."""
        standing.unwatch(search_id)

    @routes.post("/saved-searches/{search_id}/watch/feed")
    def renew_feed(search_id: str, request: Request) -> StandingAnswer:
        """Gives the feed a new secret address. The old address returns 404."""
        return described(request, standing.renew_feed(search_id))[0]

    @routes.get("/saved-searches/{search_id}/news", response_model=list[NewsAnswer])
    def list_news(
        search_id: str,
        unseen: Annotated[bool, Query(description="Only matches not marked as seen.")] = True,
        limit: Annotated[int, Query(ge=1, le=MAX_NEWS)] = 100,
        offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    ) -> list[News]:
        """Lists the matches of one of your standing searches, newest first."""
        return standing.news(search_id, unseen_only=unseen, limit=limit, offset=offset)

    @routes.post("/saved-searches/{search_id}/news/seen")
    def mark_news_seen(search_id: str, seen: SeenNews) -> MarkedAnswer:
        """Marks the given matches, or all, as seen."""
        return MarkedAnswer(marked=standing.mark_seen(search_id, seen.chunk_ids))

    return routes


def feed_routes(standing: StandingSearches, *, address_of: AddressOf) -> APIRouter:
    """The routes of Atom feeds, outside of /api because feed readers send no API key."""
    routes = APIRouter(include_in_schema=False)

    @routes.get(FEEDS + "{token}.atom")
    def read_feed(token: str, request: Request) -> Response:
        search, news = standing.feed(token)
        base = address_of(request)
        content = atom_feed(search, news, address=_feed(search, base), page=f"{base}/saved")
        headers = {"cache-control": "private, max-age=60", "x-robots-tag": "noindex"}
        return Response(content, media_type="application/atom+xml", headers=headers)

    return routes


def standing_answer(search: StandingSearch, base: str, failures: dict[Channel, str]) -> StandingAnswer:
    """base: address of the service, before the path of the feed."""
    return StandingAnswer(
        id=search.id,
        name=search.name,
        collection=search.collection,
        strength=search.watch.strength,
        since=search.since,
        unseen=search.unseen,
        feed=_feed(search, base),
        webhook=search.watch.webhook,
        webhook_secret=search.webhook_secret,
        alert=search.watch.alert,
        error=search.error,
        failures=failures,
    )


def _feed(search: StandingSearch, base: str) -> str:
    return f"{base}{FEEDS}{search.feed_token}.atom"
