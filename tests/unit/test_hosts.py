"""Which names a server without logins answers to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest
from access_application import AccessApplication, open_access_application
from fastapi.testclient import TestClient

from app.settings import Settings
from app.testing import ToyEmbedder
from app.wiring.web import open_web

pytestmark = pytest.mark.xdist_group("hosts")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, toy_services_class: Any) -> Any:
    with ExitStack() as opened:
        home = tmp_path_factory.mktemp("hosts")
        application = toy_services_class(home, opened, embedder=ToyEmbedder())
        settings = Settings(home=home, allowed_hosts="search.example.org, Proxy")
        web = opened.enter_context(open_web(replace(application.services, settings=settings)))
        yield opened.enter_context(TestClient(web))


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:7860", "localhost:1", "LOCALHOST.", "[::1]:7860", "search.example.org", "proxy:80"]
)
def test_its_own_names_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/api/v1/collections", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "attacker.invalid",
        "attacker.invalid:7860",
        "127.0.0.1.attacker.invalid",
        "10.0.0.1",
        "localhost.evil",
        "",
        "127.0.0.1:80@evil.invalid",
        "localhost/x",
        "[::1].evil.invalid",
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/collections", "/", "/healthz"])
def test_other_names_are_refused(client: TestClient, host: str, path: str) -> None:
    answer = client.get(path, headers={"host": host})
    assert answer.status_code == 421
    assert "GIRCSE_ALLOWED_HOSTS" in answer.json()["detail"]


EVIL = "attacker.invalid"


@pytest.fixture(scope="module")
def controlled(tmp_path_factory: pytest.TempPathFactory, toy_services_class: Any) -> Iterator[AccessApplication]:
    with ExitStack() as opened:
        application = toy_services_class(tmp_path_factory.mktemp("controlled"), opened, embedder=ToyEmbedder())
        application.services.library.ensure_collection("own")
        yield opened.enter_context(open_access_application(application))


@pytest.mark.parametrize(
    ("headers", "exempt"),
    [
        ({"host": EVIL}, {"/", "//", "/config"}),  # Gradio's pages: a browser sends the name that it connects to
        ({"host": "127.0.0.1", "x-forwarded-host": EVIL}, set()),
        ({"host": "127.0.0.1", "x-gradio-server": f"http://{EVIL}"}, set()),
        ({"host": "127.0.0.1", "forwarded": f"host={EVIL}", "x-original-url": f"http://{EVIL}/"}, set()),
        ({"host": f"localhost:1@{EVIL}"}, set()),
    ],
    ids=["host", "forwarded", "gradio", "other", "malformed"],
)
def test_no_response_repeats_the_host_that_a_client_chose(
    controlled: AccessApplication, headers: dict[str, str], exempt: set[str]
) -> None:
    """Of any route, with and without a final slash, with and without a login; a cache might give it to others."""
    known = {path.replace("{name}", "own") for path, each in controlled.app.openapi()["paths"].items() if "get" in each}
    known |= {"/", "/login", "/account", "/docs", "/config", "/gradio_api/info", "/mcp", "/feeds/none.atom", "/healthz"}
    repeated = set()
    for path in known | {f"{each}/" for each in known}:
        for who in (None, "admin"):
            with controlled.client.stream("GET", path, headers={**headers, **controlled.as_(who)}) as answer:
                text = answer.read().decode("utf-8", "replace") if is_finite(answer) else ""
            if EVIL in f"{answer.headers}{text}":
                repeated.add(path)
    assert repeated - exempt == set()


def is_finite(answer: httpx.Response) -> bool:
    return not answer.headers.get("content-type", "").startswith("text/event-stream")


def test_a_feed_is_named_by_a_known_host_alone(controlled: AccessApplication) -> None:
    login, saved = controlled.as_("editor of all"), "/api/v1/saved-searches"
    new = {"name": "herons", "request": {"query": "heron", "collection": "own"}}
    assert controlled.client.post(saved, json=new, headers=login).is_success
    feeds = {}
    for host in ("127.0.0.1:7860", EVIL):
        answer = controlled.client.put(f"{saved}/herons/watch", json={}, headers={**login, "host": host})
        feeds[host] = answer.json()["feed"]
        assert EVIL not in controlled.client.get(feeds[host], headers={"host": host}).text
    path = feeds[EVIL]
    assert path.startswith("/feeds/")
    assert feeds == {"127.0.0.1:7860": f"http://127.0.0.1:7860{path}", EVIL: path}
