"""Texts, originals, facets, addresses and indexing anew over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from patience import wait_until
from sample_files import pdf
from toy_reindexing import toy_reindexing

from app.api.reading import file_name
from app.errors import DocumentError
from app.maintenance.background_reindex import BackgroundReindexing
from app.types.documents import Source

TEXT = "Ümläute zählen als ein Zeichen. " * 1000
HTML = b"<script>window.attacked = 1</script><p>A page.</p>"


def read_url(url: str) -> Source:
    if "absent" in url:
        raise DocumentError("The server answers 404 Not Found.")
    return Source(name=url, uri=url, media_type="text/plain", data=b"A page of the web.")


@pytest.fixture
def reindexing(toy_services: Any) -> Iterator[BackgroundReindexing]:
    reindexing = toy_reindexing(toy_services)
    yield reindexing
    reindexing.close()


@pytest.fixture
def client(toy_services: Any, reindexing: BackgroundReindexing) -> TestClient:
    toy_services.add(TEXT, metadata={"kind": "note", "year": 1999})
    toy_services.add("Short.", metadata={"kind": "letter"})
    return TestClient(api_of(toy_services.services, read_url=read_url, reindexing=reindexing))


def first_id(application: Any) -> str:
    return application.services.catalog.documents("library")[0].id


def uploaded(client: TestClient, application: Any, name: str, data: bytes, media_type: str) -> str:
    answer = client.post("/api/v1/documents", files={"file": (name, data, media_type)})
    application.work_off()
    return str(answer.json()["document"]["id"])


def test_a_text_comes_in_windows_counted_in_characters(client: TestClient, toy_services: Any) -> None:
    path = f"/api/v1/documents/{first_id(toy_services)}/text"
    body = client.get(path, params={"start": 5, "end": 25}).json()
    assert body == {"text": TEXT[5:25], "start": 5, "end": 25, "total": len(TEXT), "page_starts": []}
    assert client.get(path).json()["text"] == TEXT[:10_000]
    assert client.get(path, params={"start": 10**9}).json()["text"] == ""


@pytest.mark.parametrize("asked", [{"end": 50_001}, {"start": -1}, {"start": 9, "end": 5}, {"start": "x"}])
def test_windows_that_cannot_be_are_problems(client: TestClient, toy_services: Any, asked: dict[str, Any]) -> None:
    answer = client.get(f"/api/v1/documents/{first_id(toy_services)}/text", params=asked)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


def test_a_document_without_text_says_why(client: TestClient, toy_services: Any) -> None:
    waiting = client.post("/api/v1/documents", json={"text": "Later."}).json()["document"]["id"]
    answer = client.get(f"/api/v1/documents/{waiting}/text")
    assert (answer.status_code, "has no text yet" in answer.json()["detail"]) == (404, True)
    for what in ("text", "content"):
        assert client.get(f"/api/v1/documents/no-such-id/{what}").status_code == 404


def test_a_pdf_opens_in_the_browser_and_is_sent_in_parts(client: TestClient, toy_services: Any) -> None:
    data = pdf("A page.")
    document_id = uploaded(client, toy_services, "a.pdf", data, "application/pdf")
    answer = client.get(f"/api/v1/documents/{document_id}/content")
    assert answer.content == data
    assert answer.headers["content-type"] == "application/pdf"
    assert answer.headers["content-disposition"] == 'inline; filename="a.pdf"'
    assert answer.headers["content-security-policy"] == "sandbox"
    assert answer.headers["x-content-type-options"] == "nosniff"
    part = client.get(f"/api/v1/documents/{document_id}/content", headers={"Range": "bytes=1-3"})
    assert (part.status_code, part.content) == (206, b"PDF")


@pytest.mark.parametrize(
    ("name", "media_type", "served"),
    [
        ("a.html", "text/html", "text/plain; charset=utf-8"),
        ("a.xml", "application/xml", "application/octet-stream"),
        ("a.svg", "image/svg+xml", "application/octet-stream"),
        ("a.txt", "text/plain", "text/plain; charset=utf-8"),
        ("a.pdf", "text/html; charset=utf-8", "text/plain; charset=utf-8"),
        ("a.xhtml", "application/xhtml+xml", "text/plain; charset=utf-8"),
    ],
)
def test_nothing_but_a_pdf_is_shown_as_a_page_of_this_server(
    client: TestClient, toy_services: Any, name: str, media_type: str, served: str
) -> None:
    document_id = uploaded(client, toy_services, name, HTML, media_type)
    answer = client.get(f"/api/v1/documents/{document_id}/content")
    assert answer.content == HTML
    assert answer.headers["content-type"] == served
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "sandbox"


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file:///home/me/notes.txt", "notes.txt"),
        ("upload://folder/über uns.txt", "über uns.txt"),
        ("https://example.org/", "example.org"),
        ("https://example.org/a?b=c#d", "a"),
        ('upload://a"b\r\nSet-Cookie: x.txt', "a_b__Set-Cookie_ x.txt"),
        ("upload://..", "document"),
        ("http://[", "["),
        ("file:///a/%C3%BCber%2Funs%20%23.txt", "über_uns #.txt"),
        ("upload://50%2525%231.txt", "50%25#1.txt"),
        ("\u202ecod.exe", "_cod.exe"),
    ],
)
def test_an_original_is_saved_under_a_harmless_name(lasting_services: Any, uri: str, name: str) -> None:
    assert file_name(replace(lasting_services.add("x"), uri=uri)) == name


def test_a_name_beyond_ascii_goes_as_rfc_5987_says(client: TestClient, toy_services: Any) -> None:
    document_id = uploaded(client, toy_services, "über.txt", b"text", "text/plain")
    disposition = client.get(f"/api/v1/documents/{document_id}/content").headers["content-disposition"]
    assert disposition == "attachment; filename*=utf-8''%C3%BCber.txt"


def test_facets_count_documents_that_the_filters_leave(client: TestClient) -> None:
    body = client.get("/api/v1/facets", params={"collection": "library", "filter": ["year=1999.0"]}).json()
    assert body == {
        "collection": "library",
        "facets": {"kind": [{"value": "note", "documents": 1}], "year": [{"value": "1999", "documents": 1}]},
    }
    for filters, status in (
        (["nonsense"], 422),
        (["=x"], 422),
        (["page=3"], 422),
        (['a"b=c'], 422),
        (["a=b"] * 33, 422),
    ):
        assert client.get("/api/v1/facets", params={"collection": "library", "filter": filters}).status_code == status
    assert client.get("/api/v1/facets", params={"collection": "other"}).status_code == 404


def test_a_page_of_the_web_is_fetched_and_taken_in(client: TestClient, toy_services: Any) -> None:
    body = {"url": "https://example.org/page", "title": "On tides", "metadata": {"kind": "page"}}
    answer = client.post("/api/v1/documents", json=body)
    assert answer.status_code == 202, answer.text
    toy_services.work_off()
    document = toy_services.services.catalog.document(answer.json()["document"]["id"])
    assert (document.uri, document.title, document.state) == (body["url"], "On tides", "ready")
    refused = client.post("/api/v1/documents", json={"url": "https://example.org/absent"})
    assert (refused.status_code, "404 Not Found" in refused.json()["detail"]) == (422, True)
    for body in ({"url": 5}, {"url": "https://a", "text": "b"}, {"url": "x" * 2001}):
        assert client.post("/api/v1/documents", json=body).status_code == 422


def test_a_service_that_fetches_nothing_says_so(toy_services: Any) -> None:
    client = TestClient(api_of(toy_services.services))
    answer = client.post("/api/v1/documents", json={"url": "https://example.org/page"})
    assert (answer.status_code, "does not fetch URLs" in answer.json()["detail"]) == (422, True)


def test_a_collection_is_indexed_anew_and_taken_back(client: TestClient, toy_services: Any) -> None:
    path = "/api/v1/collections/library/reindex"
    assert client.get(path).json()["state"] == "none"
    started = client.post(path, json={"chunk_tokens": 16, "chunk_overlap": 0})
    assert started.status_code == 202, started.text
    wait_until(lambda: client.get(path).json()["state"] == "done", told=lambda: client.get(path).json())
    status = client.get(path).json()
    assert (status["done"], status["total"], status["contract"]["chunk_tokens"]) == (2, 2, 16)
    assert client.post("/api/v1/collections/library/rollback").json()["chunk_tokens"] == 200
    for body, code in (({"chunk_tokens": 1}, 422), ({}, 409), ({"steps": 1}, 422), ({"document_steps": 0}, 422)):
        assert client.post(path, json=body).status_code == code
    assert client.get("/api/v1/collections/other/reindex").status_code == 404
    assert client.post("/api/v1/collections/other/rollback").status_code == 404


def test_a_link_to_a_deleted_document_shows_a_page_to_people_and_a_problem_to_programs(
    client: TestClient, toy_services: Any
) -> None:
    document_id = toy_services.add("Short.").id
    toy_services.services.library.delete_document(document_id)
    toy_services.work_off()
    address = f"/api/v1/documents/{document_id}/content"
    page = client.get(address, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "This document was deleted" in page.text
    assert document_id not in page.text
    assert "gircse" not in page.text
    assert client.get(address).headers["content-type"] == "application/problem+json"
