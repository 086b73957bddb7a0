"""Which names a server without logins answers to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.settings import Settings
from app.wiring.web import open_web

pytestmark = pytest.mark.xdist_group("hosts")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, toy_services_class: Any) -> Any:
    from contextlib import ExitStack

    from app.testing import ToyEmbedder

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
    ["attacker.invalid", "attacker.invalid:7860", "127.0.0.1.attacker.invalid", "10.0.0.1", "localhost.evil", ""],
)
@pytest.mark.parametrize("path", ["/api/v1/collections", "/", "/healthz"])
def test_other_names_are_refused(client: TestClient, host: str, path: str) -> None:
    answer = client.get(path, headers={"host": host})
    assert answer.status_code == 421
    assert "GIRCSE_ALLOWED_HOSTS" in answer.json()["detail"]
