"""What of a document could not be read is told with it: in REST, on the page, in the terminal."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from sample_files import zip_of

from app.testing import ToyEmbedder
from app.types.documents import DocumentState
from app.types.left_out import left_out
from ui.render.documents import DocumentPage, render_documents

LONG = {"cell_type": "code", "source": "x", "outputs": [{"output_type": "stream", "text": "word " * 5_000}]}
UNKNOWN = "\ue000\ue001\ue002 " * 4_000  # as some PDFs give for the letters of their fonts
PROSE = " ".join(f"Sentence {number} of the good part speaks of the harbour." for number in range(60))


@pytest.fixture
def services(tmp_path: Path, toy_services_class: Any) -> Iterator[Any]:
    with ExitStack() as opened:
        yield toy_services_class(tmp_path, opened, embedder=ToyEmbedder())


@pytest.fixture
def client(services: Any) -> Iterator[TestClient]:
    with TestClient(api_of(services.services)) as client:
        yield client


@pytest.mark.parametrize(
    ("metadata", "lines"),
    [
        ({}, []),
        ({"files": 3, "skipped_files": 0}, []),
        (
            {"skipped_lines": 2, "skipped": "Line 3: bad\nLine 7: bad"},
            ["Could not be read: 2 lines.", "Line 3: bad", "Line 7: bad"],
        ),
        ({"unread_pages": "2, 5-7"}, ["Pages that could not be read: 2, 5-7."]),
        ({"skipped_by": "Ada", "skipped": "a word of the author"}, []),
    ],
)
def test_counts_and_places_in_words(metadata, lines):
    assert left_out(metadata) == lines


def add(services: Any, client: TestClient, name: str, data: bytes) -> dict[str, Any]:
    services.services.library.ensure_collection("library")
    posted = client.post("/api/v1/documents", files={"file": (name, data)}, data={"collection": "library"})
    assert posted.status_code == 202, posted.text
    services.work_off()
    found: dict[str, Any] = client.get(f"/api/v1/documents/{posted.json()['document']['id']}").json()
    return found


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.jsonl", b'{"a": 1}\nbad\n{"a": 3}\n', ["Could not be read: 1 line.", "Line 2: "]),
        (
            "a.zip",
            zip_of({"a.txt": "x", "b.exe": b"MZ\x90" + bytes(9)}),
            ["Could not be read: 1 file.", "b.exe: "],
        ),
        ("b.zip", zip_of({"a.jsonl": b'{"a": 1}\nbad\n'}), ["Could not be read: 1 part.", "a.jsonl: ", "Line 2: "]),
        ("a.ipynb", json.dumps({"cells": [LONG]}).encode(), ["Could not be read: 1 result.", "Cell 1: "]),
        (
            "a.txt",
            f"{PROSE}\n\n{UNKNOWN}\n\n{PROSE}".encode(),
            ["Could not be read: ", "the model has no tokens for them"],
        ),
    ],
)
def test_a_ready_document_says_what_is_missing(
    services: Any, client: TestClient, name: str, data: bytes, said: list[str]
):
    shown = add(services, client, name, data)
    assert (shown["state"], shown["error"]) == ("ready", None)
    assert all(any(each in line for line in shown["left_out"]) for each in said)
    document = services.services.catalog.document(shown["id"])
    page = render_documents(DocumentPage("library", [document], {}, 0, 1, 10, is_filtered=False, is_paused=False))
    assert all(each in page for each in said)
    jobs = services.services.catalog.jobs(collection="library")
    reports = services.services.catalog.job_reports([job.id for job in jobs])
    assert [report.left_out for report in reports.values()] == [shown["left_out"]]


def test_a_document_of_nothing_that_the_model_knows_fails_with_the_reason(services: Any, client: TestClient):
    shown = add(services, client, "a.txt", UNKNOWN.encode())
    assert shown["state"] == DocumentState.FAILED
    assert "The model has no token for any character of this document" in shown["error"]


def test_a_whole_document_says_nothing(services: Any, client: TestClient):
    assert add(services, client, "a.txt", PROSE.encode())["left_out"] == []


@pytest.mark.parametrize("name", ["tool.exe", "README", "a.txt"])
def test_what_cannot_be_read_is_refused_at_the_drop(services: Any, client: TestClient, name: str):
    services.services.library.ensure_collection("library")
    posted = client.post("/api/v1/documents", files={"file": (name, b"\x7fELF\x02\x01\x01" + bytes(50))})
    assert posted.status_code == 422
    assert posted.json()["detail"] == "This file cannot be read: it is a program."
    assert client.get("/api/v1/documents", params={"collection": "library"}).json() == []


class TestNames:
    @pytest.mark.parametrize(
        ("filename", "folder", "uri"),
        [
            ("a.txt", "", "upload://a.txt"),
            ("2023/a.txt", "", "upload://2023/a.txt"),
            ("2024\\a.txt", "", "upload://2024/a.txt"),
            ("a.txt", "reports/2024/", "upload://reports/2024/a.txt"),
            ("deep/a.txt", "/reports", "upload://reports/deep/a.txt"),
            ("C:\\fakepath\\a.txt", "", "upload://a.txt"),
            ("../../etc/a.txt", "../x", "upload://x/etc/a.txt"),
        ],
    )
    def test_a_folder_is_a_part_of_the_identity(self, services: Any, client: TestClient, filename, folder, uri):
        services.services.library.ensure_collection("library")
        form = {"collection": "library", **({"folder": folder} if folder else {})}
        posted = client.post("/api/v1/documents", files={"file": (filename, b"Words.")}, data=form)
        assert posted.json()["document"]["uri"] == uri
        assert posted.json()["document"]["name"] == "a.txt"

    def test_same_named_files_of_two_folders_are_two_documents(self, services: Any, client: TestClient):
        for folder in ("one", "two"):
            add(services, client, f"{folder}/a.txt", f"Words of {folder}.".encode())
        assert len(client.get("/api/v1/documents", params={"collection": "library"}).json()) == 2

    @pytest.mark.parametrize("name", ["Caf\u00e9.txt", "A\u030angstro\u0308m.txt", "\u1112\u1161\u11ab.txt"])
    def test_two_spellings_of_unicode_are_one_document(self, services: Any, client: TestClient, name: str):
        ids = {add(services, client, unicodedata.normalize(form, name), b"Words.")["id"] for form in ("NFC", "NFD")}
        assert len(ids) == 1

    @pytest.mark.parametrize("form", ["NFC", "NFD"])
    @pytest.mark.parametrize("value", ["Zu\u0308rich", "Z\u00fcrich", "caf\u00e9"])
    def test_filters_find_values_however_they_are_spelled(self, services: Any, client: TestClient, value, form):
        services.services.library.ensure_collection("library")
        body = {"collection": "library", "text": "Words of a city.", "metadata": {"city": value}}
        client.post("/api/v1/documents", content=json.dumps(body), headers={"content-type": "application/json"})
        services.work_off()
        wanted = {"query": "city", "collection": "library", "filters": {"city": unicodedata.normalize(form, value)}}
        assert len(client.post("/api/v1/search", json=wanted).json()["hits"]) == 1
        facets = client.get(
            "/api/v1/facets", params={"collection": "library", "filter": f"city={wanted['filters']['city']}"}
        )
        assert facets.json()["facets"]["city"][0]["documents"] == 1
