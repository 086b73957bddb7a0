"""Pages of documents over HTTP: pictures, words with the passage marked, and what is kept of them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from PIL import Image
from scan_samples import LINES, picture, scanned_pdf

from app.documents.pages import DocumentPages
from app.runtime.lru import BytesCache
from app.testing import text_source
from app.types.pages import PageWords, PlacedWord
from app.types.texts import TextLayout
from ingest.readers import ProcessPageRenderer

TEXT = "The lighthouse keeper writes down every ship that passes in the night."
PDF = scanned_pdf(TEXT, picture())


@pytest.fixture(scope="module")
def client(lasting_services: Any) -> Iterator[TestClient]:
    with TestClient(api_of(lasting_services.services)) as client:
        yield client


@pytest.fixture(scope="module")
def scan(lasting_services: Any) -> Any:
    """A page with a text layer, and one that is recognised."""
    return add(lasting_services)


def add(toy_services: Any, data: bytes = PDF, *, name: str = "scan.pdf", media_type: str = "application/pdf") -> Any:
    services = toy_services.services
    services.library.ensure_collection("library")
    document, _ = services.library.add_document("library", text_source(name, data, media_type=media_type))
    toy_services.work_off()
    return services.catalog.document(document.id)


def chunk_on(toy_services: Any, document: Any, page: int) -> Any:
    return next(each for each in toy_services.services.catalog.chunks(document.id) if each.page == page)


def marked(answer: Any) -> str:
    return " ".join(word["text"] for word in answer.json()["words"] if word["is_marked"])


def test_the_words_of_a_passage_are_marked_on_its_page(lasting_services: Any, scan: Any, client: TestClient) -> None:
    document = scan
    for page, text in ((1, TEXT), (2, " ".join(LINES))):
        chunk = chunk_on(lasting_services, document, page)
        place = {"start": chunk.start, "end": chunk.end}
        answer = client.get(f"/api/v1/documents/{document.id}/pages/{page}", params=place)
        assert answer.status_code == 200
        assert marked(answer) == text
        assert (answer.json()["page"], answer.json()["pages"]) == (page, 2)
        other = client.get(f"/api/v1/documents/{document.id}/pages/{3 - page}", params=place)
        assert marked(other) == ""
    first = client.get(f"/api/v1/documents/{document.id}/pages/1").json()["words"][0]
    assert (first["text"], first["is_marked"]) == ("The", False)
    assert first["left"] == pytest.approx(40 / 400, abs=0.005)
    assert first["top"] < 100 / 300 < first["bottom"] + 0.01


def test_places_survive_that_a_document_is_read_again(lasting_services: Any, scan: Any, client: TestClient) -> None:
    address, passage = f"/api/v1/documents/{scan.id}/pages/2", {"start": 0, "end": 500}
    before = client.get(address, params=passage).json()
    lasting_services.services.blobs.put_layout(scan.content_hash, TextLayout())
    assert client.get(address).json()["words"] == []  # recognised words have no other place
    again = add(lasting_services, PDF, name="copy.pdf")
    assert again.content_hash == scan.content_hash
    assert client.get(address, params=passage).json() == before


def test_pictures_are_of_few_widths_and_asked_for_each_time(scan: Any, client: TestClient) -> None:
    address = f"/api/v1/documents/{scan.id}/pages/2/image"
    answer = client.get(address, params={"width": 100})
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.headers["cache-control"] == "private, no-cache"
    assert Image.open(io.BytesIO(answer.content)).width == 160
    again = client.get(address, params={"width": 100}, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(address, params={"width": 100_000}).status_code == 422


@pytest.mark.parametrize(("page", "status"), [(0, 422), (3, 422), ("x", 422)])
def test_a_page_that_is_not_there_is_refused(scan: Any, client: TestClient, page: object, status: int) -> None:
    for what in ("", "/image"):
        assert client.get(f"/api/v1/documents/{scan.id}/pages/{page}{what}").status_code == status


def test_a_text_has_no_pages_to_look_at(lasting_services: Any, client: TestClient) -> None:
    document = lasting_services.add("No pages here.")
    answer = client.get(f"/api/v1/documents/{document.id}/pages/1")
    assert answer.status_code == 422
    assert "no pages to show" in answer.json()["detail"]
    assert client.get("/api/v1/documents/nowhere/pages/1/image").status_code == 404


class CountingRenderer:
    def __init__(self) -> None:
        self.asked: list[int] = []

    def words(self, path: Path, *, media_type: str, page: int) -> PageWords:
        self.asked.append(0)
        return PageWords(1, 100, 100, (PlacedWord("word", 0, 0, 1, 1),))

    def image(self, path: Path, *, media_type: str, page: int, width: int) -> bytes:
        self.asked.append(width)
        return b"x" * width


def test_what_was_drawn_is_kept_within_bounds(toy_services: Any) -> None:
    document, renderer = toy_services.add("A text."), CountingRenderer()
    pages = DocumentPages(toy_services.services.blobs, renderer, cache_bytes=1_000)
    for width in (600, 640, 320, 640, 960, 640):
        pages.image(document, 1, width=width)
    assert renderer.asked == [640, 320, 960, 640]
    pages.page(document, 1)
    pages.page(document, 1)
    assert renderer.asked[4:] == [0]


def test_a_cache_of_bytes_holds_no_more_than_it_may() -> None:
    cache: BytesCache[str] = BytesCache(10)
    for key, size in (("a", 4), ("b", 4), ("a", 5), ("c", 5), ("d", 20)):
        cache.keep(key, b"x" * size)
    assert [cache.get(key) for key in "abcd"] == [None, None, None, None]
    cache.keep("e", b"12345")
    cache.keep("f", b"12345")
    assert (cache.get("e"), cache.get("f")) == (b"12345", b"12345")


def test_pages_are_drawn_in_a_process_that_a_bad_file_cannot_harm(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.pdf", tmp_path / "bad.pdf"
    good.write_bytes(PDF)
    bad.write_bytes(b"%PDF-1.4 nothing")
    renderer = ProcessPageRenderer()
    try:
        assert renderer.words(good, media_type="application/pdf", page=1).words[0].text == "The"
        image = renderer.image(good, media_type="application/pdf", page=2, width=320)
        assert Image.open(io.BytesIO(image)).size == (320, 240)
        with pytest.raises(ValueError, match="truncated"):
            renderer.image(bad, media_type="application/pdf", page=1, width=320)
        with pytest.raises(FileNotFoundError):
            renderer.words(tmp_path / "gone.pdf", media_type="application/pdf", page=1)
    finally:
        renderer.close()
