"""Standing searches over HTTP: each caller's own, and feeds that their addresses open."""

from __future__ import annotations

from typing import Any

import feedparser
import pytest
from api_application import api_of
from fastapi.testclient import TestClient

SAVED = "/api/v1/saved-searches"


@pytest.fixture
def client(toy_services: Any) -> TestClient:
    toy_services.services.library.ensure_collection("library")
    client = TestClient(api_of(toy_services.services), raise_server_exceptions=False)
    assert client.post(SAVED, json={"name": "cats", "request": {"query": "cat", "collection": "library"}}).is_success
    return client


def test_a_saved_search_keeps_watch(toy_services: Any, client: TestClient) -> None:
    begun = client.put(f"{SAVED}/cats/watch", json={"strength": "fair", "webhook": "https://example.org/hook"}).json()
    assert (begun["name"], begun["collection"], begun["unseen"], begun["failures"]) == ("cats", "library", 0, {})
    assert begun["webhook_secret"].startswith("whsec_")
    document = toy_services.add("cat sleeps")
    [listed] = client.get("/api/v1/standing-searches").json()
    assert listed == client.get(f"{SAVED}/cats/watch").json() == {**begun, "unseen": 1}
    [news] = client.get(f"{SAVED}/cats/news").json()
    assert (news["document_id"], news["text"], news["is_seen"]) == (document.id, "cat sleeps", False)
    assert client.post(f"{SAVED}/cats/news/seen", json={"chunk_ids": [news["chunk_id"]]}).json() == {"marked": 1}
    assert client.get(f"{SAVED}/cats/news").json() == []
    assert len(client.get(f"{SAVED}/cats/news?unseen=false").json()) == 1
    assert client.delete(f"{SAVED}/cats/watch").status_code == 204
    assert client.get(f"{SAVED}/cats/news").status_code == 404


def test_a_feed_is_read_by_its_address_alone(toy_services: Any, client: TestClient) -> None:
    begun = client.put(f"{SAVED}/cats/watch", json={}).json()
    toy_services.add("cat <script>sleeps</script> \x0b & more cat")
    answer = client.get(begun["feed"])
    assert answer.headers["content-type"].startswith("application/atom+xml")
    feed = feedparser.parse(answer.content)
    assert (feed.bozo, feed.feed.title, len(feed.entries)) == (False, "cats", 1)
    assert feed.entries[0].content[0].type == "text/plain"
    assert "<script>" in feed.entries[0].content[0].value
    renewed = client.post(f"{SAVED}/cats/watch/feed").json()
    assert client.get(begun["feed"]).status_code == 404
    again = feedparser.parse(client.get(renewed["feed"]).content)
    assert [entry.id for entry in again.entries] == [entry.id for entry in feed.entries]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"strength": "weak"}, "strength"),
        ({"webhook": "ftp://host"}, "webhook"),
        ({"webhook": "https://"}, "webhook"),
        ({"webhook": "http:///hook"}, "webhook"),
        ({"webhook": "https://host:0/hook"}, "webhook"),
        ({"webhook": "https://host:x/hook"}, "webhook"),
        ({"webhook": "https://[::1/hook"}, "webhook"),
        ({"webhook": "https://ho st/hook"}, "webhook"),
        ({"webhook": "https://anna:secret@host/hook"}, "password"),
        ({"alert": "ops"}, "GIRCSE_ALERTS_FILE"),
    ],
)
def test_what_cannot_be_is_refused(client: TestClient, body: dict[str, str], reason: str) -> None:
    answer = client.put(f"{SAVED}/cats/watch", json=body)
    assert answer.status_code == 422
    assert reason in answer.text
    assert client.put(f"{SAVED}/dogs/watch", json={}).status_code == 404
    assert client.get("/feeds/nothing.atom").status_code == 404
