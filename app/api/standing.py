"""Standing searches over HTTP: each caller's own, and feeds, whose secret addresses need no login."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from app.api.atom import atom_feed
from app.api.base_schemas import Answer, Posted
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


class NewWatch(Posted):
    strength: Strength = Field(default=Strength.FAIR, description="The least `match` of what is told.")
    webhook: str | None = Field(
        default=None,
        max_length=MAX_WEBHOOK_CHARACTERS,
        description="Where each find is posted, signed with `webhook_secret` as https://www.standardwebhooks.com says.",
    )
    alert: str | None = Field(default=None, description="A target of GIRCSE_ALERTS_FILE: mail or chat.")


class StandingAnswer(Answer):
    id: str = Field(description="That of the saved search.")
    name: str
    collection: str
    strength: Strength
    since: datetime
    unseen: int = Field(description="How many passages it found that were not marked as seen.")
    feed: str = Field(description="The address of its Atom feed. Who has it may read it.")
    webhook: str | None
    webhook_secret: str
    alert: str | None
    error: str | None = Field(description="Why it cannot be asked at present.")
    failures: dict[Channel, str] = Field(description="Why the newest delivery of a channel has not arrived.")


class NewsAnswer(Answer):
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


class SeenNews(Posted):
    chunk_ids: list[str] | None = Field(default=None, max_length=MAX_NEWS, description="Left out: all.")


class MarkedAnswer(BaseModel):
    marked: int


def standing_routes(standing: StandingSearches, *, public_url: str | None) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["search"])

    def told(request: Request, *searches: StandingSearch) -> list[StandingAnswer]:
        failures = standing.failures(searches)
        base = public_url or str(request.base_url).rstrip("/")
        return [_answer(each, base, failures.get(each.id, {})) for each in searches]

    @routes.get("/standing-searches", response_model=list[StandingAnswer], responses=PAGE_HEADERS)
    def list_standing_searches(request: Request, page: Page) -> list[StandingAnswer]:
        """Those of your saved searches that keep watch, in the order of their names."""
        return told(request, *page.of(standing.standing()))

    @routes.put("/saved-searches/{search_id}/watch")
    def watch_saved_search(search_id: str, new: NewWatch, request: Request) -> StandingAnswer:
        """A saved search of yours is asked of every chunk that is new in its collection from now on.

        Sent again, it replaces strength and channels.
        """
        watch = Watch(new.strength, (new.webhook or "").strip() or None, new.alert or None)
        return told(request, standing.watch(search_id, watch))[0]

    @routes.get("/saved-searches/{search_id}/watch")
    def show_standing_search(search_id: str, request: Request) -> StandingAnswer:
        """How a saved search of yours keeps watch."""
        return told(request, standing.find(search_id))[0]

    @routes.delete("/saved-searches/{search_id}/watch", status_code=204)
    def unwatch_saved_search(search_id: str) -> None:
        """It keeps watch no more, and what it found is forgotten. It stays saved."""
        standing.unwatch(search_id)

    @routes.post("/saved-searches/{search_id}/watch/feed")
    def renew_feed(search_id: str, request: Request) -> StandingAnswer:
        """Gives its feed another address; the one of before answers 404."""
        return told(request, standing.renew_feed(search_id))[0]

    @routes.get("/saved-searches/{search_id}/news", response_model=list[NewsAnswer])
    def list_news(
        search_id: str,
        unseen: Annotated[bool, Query(description="Only what was not marked as seen.")] = True,
        limit: Annotated[int, Query(ge=1, le=MAX_NEWS)] = 100,
        offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    ) -> list[News]:
        """What a standing search of yours found, the newest first."""
        return standing.news(search_id, unseen_only=unseen, limit=limit, offset=offset)

    @routes.post("/saved-searches/{search_id}/news/seen")
    def mark_news_seen(search_id: str, seen: SeenNews) -> MarkedAnswer:
        """Marks these passages, or all, as seen."""
        return MarkedAnswer(marked=standing.mark_seen(search_id, seen.chunk_ids))

    return routes


def feed_routes(standing: StandingSearches, *, public_url: str | None) -> APIRouter:
    """Outside of /api: readers of feeds show no key."""
    routes = APIRouter(include_in_schema=False)

    @routes.get(FEEDS + "{token}.atom")
    def read_feed(token: str, request: Request) -> Response:
        search, news = standing.feed(token)
        base = public_url or str(request.base_url).rstrip("/")
        content = atom_feed(search, news, address=_feed(search, base), page=f"{base}/saved")
        headers = {"cache-control": "private, max-age=60", "x-robots-tag": "noindex"}
        return Response(content, media_type="application/atom+xml", headers=headers)

    return routes


def _answer(search: StandingSearch, base: str, failures: dict[Channel, str]) -> StandingAnswer:
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
