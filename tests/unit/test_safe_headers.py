"""What every answer tells a browser, and what a route says for itself."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from api_application import api_of
from fastapi import FastAPI, Response
from fastapi.testclient import TestClient

from app.api.safe_headers import HEADERS, POLICY, SafeHeaders


@pytest.fixture
def client() -> TestClient:
    api = FastAPI()
    api.add_middleware(SafeHeaders)

    @api.get("/page")
    def page() -> Response:
        return Response("<p>", media_type="text/html")

    @api.get("/sandboxed")
    def sandboxed() -> Response:
        return Response("<p>", media_type="text/html", headers={POLICY: "sandbox"})

    @api.get("/file.pdf")
    def pdf() -> Response:
        return Response(b"%PDF-", media_type="application/pdf")

    return TestClient(api)


def test_every_answer_has_them_also_that_nothing_is_there(client: TestClient) -> None:
    for path in ("/page", "/absent"):
        assert HEADERS.items() <= dict(client.get(path).headers).items()


def test_a_route_keeps_its_own(client: TestClient) -> None:
    headers = client.get("/sandboxed").headers
    assert headers.get_list(POLICY) == ["sandbox"]
    assert headers["x-content-type-options"] == "nosniff"


def test_the_viewer_of_pdfs_is_left_to_itself(client: TestClient) -> None:
    headers = client.get("/file.pdf").headers
    assert POLICY not in headers
    assert headers["x-content-type-options"] == "nosniff"


def test_the_page_about_the_api_takes_nothing_from_elsewhere(toy_services: Any) -> None:
    client = TestClient(api_of(toy_services.services))
    answer = client.get("/docs")
    assert HEADERS.items() <= dict(answer.headers).items()
    assert "frame-ancestors 'self'" in answer.headers[POLICY]
    assert not re.findall(
        r"<script|https?://|src=|<link|@import|url\(|\son\w+=", re.sub("<pre>.*?</pre>", "", answer.text, flags=re.S)
    )
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        assert f"<code>{html.escape(path)}</code>" in answer.text
        assert all(str(each["operationId"]) in answer.text for each in methods.values())
    for gone in ("/redoc", "/docs/oauth2-redirect"):
        assert client.get(gone).status_code == 404


def test_the_api_has_them(toy_services) -> None:  # type: ignore[no-untyped-def]
    client = TestClient(api_of(toy_services.services))
    for path in ("/healthz", "/api/v1/documents/absent"):
        assert HEADERS.items() <= dict(client.get(path).headers).items()
