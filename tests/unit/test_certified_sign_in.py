"""Signing in by a provider that is not of our own making, over HTTP from its first address to its last."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest
from access_application import ADMIN_SECRET, open_controlled_web
from fastapi.testclient import TestClient

from app.access.accounts import Accounts
from app.testing import ToyEmbedder
from app.types.access import Role

PUBLIC_URL = "https://search.example.org"
PACKAGES = sorted(Path(sys.prefix).glob("oidc-provider-*/node_modules/oidc-provider"))
SCRIPT = Path(__file__).parents[1] / "certified_provider.mjs"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not PACKAGES or shutil.which("node") is None, reason="oidc-provider is not installed (make long)"
    ),
]


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    command = ["node", str(SCRIPT), str(PACKAGES[-1].parents[1]), f"{PUBLIC_URL}/login/openid/callback"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def service(issuer: str, tmp_path_factory: pytest.TempPathFactory, toy_services_class: Any) -> Iterator[Any]:
    settings = {
        "access_control": True,
        "admin_secret": ADMIN_SECRET,
        "public_url": PUBLIC_URL,
        "oidc_issuer": issuer,
        "oidc_client_id": "search",
        "oidc_client_secret": "a secret of tests",
        "oidc_allowed": "groups=search-*",
        "oidc_collections": "own*",
    }
    with ExitStack() as opened:
        toy = toy_services_class(tmp_path_factory.mktemp("certified"), opened, embedder=ToyEmbedder())
        app = opened.enter_context(open_controlled_web(toy, **settings))
        yield app, Accounts(toy.services.catalog.access, admin_secret=ADMIN_SECRET)


def at_the_provider(address: str, person: str) -> str:
    """What a person does there: logs in, and agrees. Returns where the provider sends the browser at last."""
    with httpx.Client(trust_env=False) as browser:
        for _ in range(20):
            answer = browser.get(address)
            while answer.status_code in (302, 303):
                address = urljoin(address, answer.headers["location"])
                if address.startswith(PUBLIC_URL):
                    return address
                answer = browser.get(address)
            form = re.search(r'<form[^>]*action="([^"]+)"[^>]*>(.*?)</form>', answer.text, re.DOTALL)
            assert form, answer.text
            fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form[2]))
            fields |= {"login": person, "password": "any"} if fields.get("prompt") == "login" else {}
            answer = browser.post(urljoin(address, form[1]), data=fields)
            address = urljoin(address, answer.headers["location"])
    raise AssertionError("the provider sends the browser in a circle")


def browser_of(app: Any) -> TestClient:
    return TestClient(app, base_url=PUBLIC_URL, follow_redirects=False, client=("10.0.0.1", 50_000))


def test_a_person_signs_in(service: Any) -> None:
    app, accounts = service
    browser = browser_of(app)
    begun = browser.get("/login/openid", params={"next": "/about"})
    asked = parse_qs(urlsplit(begun.headers["location"]).query)
    assert asked["code_challenge_method"] == ["S256"]
    back = at_the_provider(begun.headers["location"], "anna")
    done = browser.get(back)
    assert (done.status_code, done.headers["location"]) == (303, "/about"), done.text
    me = browser.get("/api/v1/me").json()
    assert (me["name"], me["role"], me["collections"]) == ("anna", "reader", ["own*"])
    assert accounts.ledger.user("anna").role is Role.READER
    assert browser.get(back).status_code != 303  # a code is taken once
    assert browser_of(app).get(back).status_code != 303  # and belongs to the browser that asked


def test_somebody_of_another_group_stays_out(service: Any) -> None:
    app, accounts = service
    browser = browser_of(app)
    back = at_the_provider(browser.get("/login/openid").headers["location"], "eve")
    refused = browser.get(back)
    assert refused.status_code == 403, refused.text
    assert "gircse_session" not in browser.cookies
    assert "eve" not in [each.name for each in accounts.ledger.users()]
