"""The page's handlers, called as a stranger would call them, and the page as a server gives it out."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import InputError, UnavailableError, UnknownCollectionError, UnknownDocumentError
from app.search_types import SearchRequest, SearchResult
from app.types import Collection, CountedCollection, Document, DocumentState, Job, JobKind, JobState
from ui.app import AboutInfo, Example, Preset, build_page, mount_page
from ui.documents_page import DocumentHandlers
from ui.guard import guarded, read_choice, read_text, read_whole_number
from ui.search_page import MAX_INSTRUCTION_CHARS, MAX_QUERY_CHARS, OWN_WORDS, SearchHandlers
from ui.uploads import MAX_FILES, require_upload, taken_uploads

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PRESETS = (Preset("Topic", "Same topic."), Preset("None", ""))


class NoHits:
    """A search over nothing, which remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[SearchRequest] = []

    def search(self, request: SearchRequest, /) -> SearchResult:
        self.requests.append(request)
        return SearchResult(request.query, request.instruction or "", 1, request.collection, (), (), {})


class OneDocumentCatalog:
    """The collections `library` and `other`, and one document in `library`."""

    def __init__(self) -> None:
        self.stored = Document(
            "d1", "library", "a.txt", "A", "text/plain", "0" * 64, 3, {}, DocumentState.READY, None, 2, NOW, NOW
        )

    def collections(self) -> list[CountedCollection]:
        return [
            CountedCollection(name, "f", 4, "", 1, 200, 30, f"{name}--1", document_count=1, chunk_count=2)
            for name in ("library", "other")
        ]

    def collection(self, name: str) -> Collection:
        return self.counted_collection(name)

    def counted_collection(self, name: str) -> CountedCollection:
        for each in self.collections():
            if each.name == name:
                return each
        raise UnknownCollectionError(name, ["library", "other"])

    def documents(self, collection: str | None = None, *, limit: int = 100) -> list[Document]:
        return [self.stored] if collection == "library" else []

    def document(self, document_id: str) -> Document:
        if document_id != self.stored.id:
            raise UnknownDocumentError(f"No document {document_id!r}.")
        return self.stored

    def jobs(self, *, collection: str | None = None, limit: int = 100) -> list[Job]:
        return []

    def submit_delete(self, document_id: str) -> Job:
        self.stored = replace(self.document(document_id), state=DocumentState.DELETING)
        return Job("j", JobKind.DELETE, "library", "d1", JobState.QUEUED, 0, 0.0, None, None, None, 1, NOW, NOW, None)


@pytest.fixture
def search() -> NoHits:
    return NoHits()


@pytest.fixture
def handlers(search: NoHits) -> SearchHandlers:
    return SearchHandlers(search_service=search, catalog=OneDocumentCatalog(), presets=PRESETS, max_steps=20)  # type: ignore[arg-type]


@pytest.fixture
def catalog() -> OneDocumentCatalog:
    return OneDocumentCatalog()


@pytest.fixture
def documents(catalog: OneDocumentCatalog) -> DocumentHandlers:
    return DocumentHandlers(catalog=catalog, add_files=lambda name, files: [catalog.stored for _ in files])  # type: ignore[arg-type]


def test_a_search_passes_on_what_was_chosen(handlers: SearchHandlers, search: NoHits) -> None:
    handlers.search("  card  ", " Same topic. ", 7.0, "library", 3)
    assert search.requests == [SearchRequest("card", "library", "Same topic.", 7, 3)]


def test_an_emptied_instruction_means_none_rather_than_the_default(handlers: SearchHandlers, search: NoHits) -> None:
    handlers.search("card", "", 5, "library", 3)
    assert search.requests[0].instruction == ""


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("", "", 5, "library", 3), "empty"),
        ((" \n\t", "", 5, "library", 3), "empty"),
        ((None, "", 5, "library", 3), "empty"),
        ((["card"], "", 5, "library", 3), "must be text"),
        (("x" * (MAX_QUERY_CHARS + 1), "", 5, "library", 3), "10,001 characters"),
        (("card", "x" * (MAX_INSTRUCTION_CHARS + 1), 5, "library", 3), "instruction is 2,001"),
        (("card", {"a": 1}, 5, "library", 3), "must be text"),
        (("card", "", 0, "library", 3), "from 1 to 20"),
        (("card", "", 21, "library", 3), "from 1 to 20"),
        (("card", "", 5.5, "library", 3), "whole number"),
        (("card", "", True, "library", 3), "whole number"),
        (("card", "", float("nan"), "library", 3), "whole number"),
        (("card", "", "5", "library", 3), "whole number"),
        (("card", "", 5, "library", 10**9), "from 1 to 50"),
        (("card", "", 5, "elsewhere", 3), "No collection named"),
        (("card", "", 5, None, 3), "Choose a collection"),
        (("card", "", 5, ["library"], 3), "Choose a collection"),
    ],
)
def test_bad_input_is_refused_before_any_search(
    handlers: SearchHandlers, search: NoHits, values: tuple[object, ...], message: str
) -> None:
    answer = guarded(handlers.search, outputs=2)(*values)
    assert 'role="alert"' in answer[0]
    assert message in answer[0]
    assert answer[1] == ""
    assert search.requests == []


JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text()), st.binary())


@settings(deadline=None)
@given(st.tuples(JUNK, JUNK, JUNK, JUNK, JUNK))
def test_no_junk_reaches_the_unforeseen(values: tuple[object, ...]) -> None:
    junked = SearchHandlers(search_service=NoHits(), catalog=OneDocumentCatalog(), presets=PRESETS, max_steps=20)  # type: ignore[arg-type]
    assert "incident" not in guarded(junked.search, outputs=2)(*values)[0]


@settings(deadline=None)
@given(JUNK)
def test_readers_give_what_they_promise_or_refuse(value: object) -> None:
    readers: list[tuple[Callable[[], object], type]] = [
        (lambda: read_text(value, name="text", max_chars=10), str),
        (lambda: read_whole_number(value, name="number", minimum=1, maximum=5), int),
        (lambda: read_choice(value, name="choice"), str),
    ]
    for read, kind in readers:
        try:
            result = read()
        except InputError:
            continue
        assert type(result) is kind


def test_changing_a_setting_before_any_query_is_no_error(handlers: SearchHandlers, search: NoHits) -> None:
    assert handlers.search_again("  ", "", 5, "library", 3) == (gr.skip(), gr.skip())
    handlers.search_again("card", "", 5, "library", 3)
    assert len(search.requests) == 1


def test_presets_fill_the_instruction_and_own_words_keep_it(handlers: SearchHandlers) -> None:
    assert handlers.instruction_of("Topic") == "Same topic."
    assert handlers.instruction_of("None") == ""
    assert handlers.instruction_of(OWN_WORDS) == gr.skip()
    with pytest.raises(InputError, match="preset"):
        handlers.instruction_of("Elsewhere")


def test_an_unforeseen_error_shows_an_id_and_hides_its_text(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> tuple[Any, ...]:
        raise RuntimeError("password=hunter2")

    with caplog.at_level(logging.ERROR):
        message, other = guarded(failing, outputs=2)()
    incident = caplog.records[0].args[0]  # type: ignore[index]
    assert str(incident) in message
    assert "hunter2" not in message
    assert other == ""
    assert "hunter2" in caplog.text


def test_documents_of_a_collection_are_listed(documents: DocumentHandlers) -> None:
    assert "a.txt" in documents.list("library")[0]
    assert "No documents yet" in documents.list("other")[0]
    assert "no collection yet" in documents.list(None)[0]


@pytest.fixture
def upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file as Gradio leaves it: in its upload folder, in a folder of its own."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    path = tmp_path / "uploads" / "abc" / "note.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"text")
    return path


def test_files_are_handed_in_and_uploads_removed(documents: DocumentHandlers, upload: Path) -> None:
    message, listing, field = documents.add("library", [str(upload)])
    assert "1 file was handed in" in message
    assert "a.txt" in listing
    assert field is None
    assert not upload.exists()


def test_uploads_are_kept_when_they_cannot_be_taken(upload: Path) -> None:
    def take() -> None:
        with taken_uploads([str(upload)]) as files:
            assert files == [upload]
            raise UnavailableError("The disk is full.")

    with pytest.raises(UnavailableError):
        take()
    assert upload.exists()


def take(paths: list[str]) -> None:
    with taken_uploads(paths):
        pass


def test_no_file_outside_the_upload_folder_is_read(upload: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    link = upload.with_name("link.txt")
    link.symlink_to(secret)
    around = upload.parent / ".." / ".." / "secret.txt"
    for path in (secret, link, around, upload.parent, upload.with_name("absent"), "https://example.org/a", None, 5):
        with pytest.raises(InputError, match="not uploaded here"):
            require_upload(path if path is None or isinstance(path, int) else str(path))
    with pytest.raises(InputError, match="not uploaded here"):
        take([str(upload), str(secret)])
    assert secret.exists()
    assert upload.exists()


@pytest.mark.parametrize("paths", [None, [], "note.txt", 5])
def test_no_files_are_refused(documents: DocumentHandlers, paths: object) -> None:
    with pytest.raises(InputError, match="at least one file"):
        documents.add("library", paths)


def test_too_many_or_too_large_files_are_refused_and_kept(upload: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="At most 50 files"):
        take([str(upload)] * (MAX_FILES + 1))
    monkeypatch.setattr("ui.uploads.MAX_FILE_BYTES", 3)
    with pytest.raises(InputError, match="4 bytes; at most 3"):
        take([str(upload)])
    assert upload.exists()


def test_without_a_way_to_add_files_the_command_is_named(catalog: OneDocumentCatalog) -> None:
    with pytest.raises(InputError, match="gircse ingest"):
        DocumentHandlers(catalog=catalog, add_files=None).add("library", ["a"])  # type: ignore[arg-type]


def test_a_document_is_deleted_from_its_own_collection_alone(
    documents: DocumentHandlers, catalog: OneDocumentCatalog
) -> None:
    with pytest.raises(UnknownDocumentError, match="'other' has no such document"):
        documents.delete("other", "d1")
    with pytest.raises(InputError):
        documents.delete("library", {"id": "d1"})
    assert catalog.stored.state is DocumentState.READY

    message, listing = documents.delete("library", "d1")
    assert "being deleted" in message
    assert "being deleted" in listing
    assert catalog.stored.state is DocumentState.DELETING


@pytest.fixture(scope="module")
def client() -> TestClient:
    api = FastAPI()
    api.get("/healthz")(lambda: {"status": "ok"})
    page = build_page(
        search=NoHits(),
        catalog=OneDocumentCatalog(),  # type: ignore[arg-type]
        presets=PRESETS,
        default_steps=5,
        max_steps=20,
        about=AboutInfo(model_name="toy", version="0.0"),
        examples=[Example("Where is my card?", "Same topic.")],
        add_files=lambda name, files: [],
    )
    return TestClient(mount_page(api, page))


def test_the_page_stands_beside_the_api(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert "gircse-search" in client.get("/").text


def test_the_page_is_private_and_says_no_more_than_it_must(client: TestClient) -> None:
    config = client.get("/config").json()
    assert config["analytics_enabled"] is False
    assert config["show_error"] is False
    assert config["footer_links"] == []
    assert config["stylesheets"] == []
    assert {each["api_visibility"] for each in config["dependencies"]} == {"private"}


def test_the_theme_loads_no_font_from_anywhere(client: TestClient) -> None:
    theme = client.get("/theme.css").text
    assert "--accent" in theme
    assert "@font-face" not in theme
    assert set(re.findall(r"url\([\"']?(\w*:?)", theme)) <= {"data:"}


def add_files_through_http(client: TestClient, path: str, **extra: object) -> str:
    """What the "Add" button sends, and all that the server streams back."""
    dependencies = client.get("/config").json()["dependencies"]
    add = next(each for each in dependencies if (len(each["inputs"]), len(each["outputs"])) == (2, 3))
    file = {"path": path, "meta": {"_type": "gradio.FileData"}, **extra}
    body = {"data": ["library", [file]], "fn_index": add["id"], "session_hash": uuid.uuid4().hex}
    client.post("/gradio_api/queue/join", json=body).raise_for_status()
    return client.get("/gradio_api/queue/data", params={"session_hash": body["session_hash"]}).text


def test_an_upload_is_read_but_no_other_file_of_the_server(client: TestClient, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    with client:
        uploaded = client.post("/gradio_api/upload", files={"files": ("note.txt", b"text")}).json()[0]
        assert "handed in" in add_files_through_http(client, uploaded)
        assert not Path(uploaded).exists()
        for extra in ({}, {"is_stream": True}):
            assert "handed in" not in add_files_through_http(client, str(secret), **extra)
    assert secret.exists()
