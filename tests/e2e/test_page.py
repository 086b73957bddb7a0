"""The page in a real headless Chromium over a real server: search, instructions, errors, documents, no outside request.

The search behind it is small but real: it ranks by cosine over concepts that the instruction weighs.
"""

from __future__ import annotations

import math
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, expect, sync_playwright

from app.errors import UnknownCollectionError, UnknownDocumentError
from app.search_types import Highlight, Hit, HitChunk, HitDocument, RefinementStep, SearchRequest, SearchResult, Token
from app.types import Collection, CountedCollection, Document, DocumentState, Job, JobKind, JobState
from ui.app import AboutInfo, Example, Preset, build_page, mount_page

pytestmark = pytest.mark.xdist_group("page")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or "/usr/bin/chromium"
NOW = datetime(2026, 1, 2, tzinfo=UTC)
TOPIC, FEELING = "Find texts on the same topic.", "Find texts with the same feeling."
HOSTILE = "<img src=x onerror=window.attacked=1> ${window.attacked=1} {{value}} <script>window.attacked=1</script>"

CONCEPTS = {
    "ferry": ("topic", ("ferry", "quay", "island", "boat", "harbour")),
    "kettle": ("topic", ("kettle", "boils", "lid", "steam")),
    "anger": ("feeling", ("angry", "furious", "fed", "rage", "annoyed")),
    "joy": ("feeling", ("happy", "joyful", "delighted", "smiling")),
}
TEXTS = {
    "Late again": "The ferry was due at seven. I stood on the quay for an hour, furious. Nobody told us anything.",
    "A day out": "We took the ferry to the island. The boat was full of smiling people. It was a joyful day.",
    "Second repair": "The lid of the kettle broke again. I am angry and fed up. I would like to send it back.",
    "A good present": "The kettle boils in two minutes. My mother is delighted with it.",
    HOSTILE: f"This text is hostile: {HOSTILE}. It has no concept at all.",
}


def sentences(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"[^.]+\.", text)]


class ConceptSearch:
    """Cosine over concept counts; concepts of the kind that the instruction names weigh ten times as much."""

    def __init__(self, catalog: SmallCatalog) -> None:
        self._catalog = catalog

    def vector(self, text: str, instruction: str) -> list[float]:
        words = re.findall(r"\w+", text.lower())
        counts = []
        for kind, members in CONCEPTS.values():
            weight = 1.0 if not instruction or kind in instruction else 0.1
            counts.append(weight * sum(words.count(member) for member in members))
        norm = math.sqrt(sum(count * count for count in counts)) or 1.0
        return [count / norm for count in counts]

    def cosine(self, query: str, text: str, instruction: str) -> float:
        pairs = zip(self.vector(query, instruction), self.vector(text, instruction), strict=True)
        return sum(a * b for a, b in pairs)

    def search(self, request: SearchRequest, /) -> SearchResult:
        instruction, steps = request.instruction or "", request.steps or 5
        self._catalog.collection(request.collection)
        documents = self._catalog.documents(request.collection)
        scored = [(self.cosine(request.query, self._catalog.texts[d.id], instruction), d) for d in documents]
        scored.sort(key=lambda pair: (-pair[0], pair[1].id))
        hits = [self.hit(request, rank, *pair) for rank, pair in enumerate(scored[: request.limit], start=1)]
        refinement = tuple(self.step(number, request.query, instruction) for number in range(1, steps + 1))
        timings = {"total": 4.2}
        return SearchResult(request.query, instruction, steps, request.collection, tuple(hits), refinement, timings)

    def hit(self, request: SearchRequest, rank: int, score: float, document: Document) -> Hit:
        text = self._catalog.texts[document.id]
        instruction = request.instruction or ""
        best = max(sentences(text), key=lambda span: self.cosine(request.query, text[slice(*span)], instruction))
        why = Highlight(*best, score=self.cosine(request.query, text[slice(*best)], instruction))
        shown = HitDocument(document.id, document.title, document.uri, document.metadata)
        return Hit(rank, score, shown, HitChunk(document.id, text, 0, len(text), None), why)

    def step(self, number: int, query: str, instruction: str) -> RefinementStep:
        """Later steps look deeper into the members of each concept; a function word comes first, as in real models."""
        weights = {"the": 0.5}
        for strength, (_, members) in zip(self.vector(query, instruction), CONCEPTS.values(), strict=True):
            for depth, member in enumerate(members[: 1 + number // 4]):
                weights[member] = strength / (1 + depth)
        total = sum(weights.values())
        ranked = sorted(weights.items(), key=lambda item: -item[1])
        return RefinementStep(number, tuple(Token(word, weight / total) for word, weight in ranked if weight > 0))


class SmallCatalog:
    """The catalog methods that the page calls, in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._documents: dict[str, Document] = {}
        self._jobs: list[Job] = []

    def add(self, title: str, text: str, *, state: DocumentState = DocumentState.READY) -> Document:
        identifier = f"document-{len(self.texts)}"
        self.texts[identifier] = text
        document = Document(
            identifier, "letters", f"letters/{len(self.texts)}.txt", title, "text/plain", "0" * 64, len(text),
            {"year": 2026, "from": "a reader"}, state, None, 1, NOW, NOW,
        )  # fmt: skip
        self._documents[identifier] = document
        return document

    def collections(self) -> list[CountedCollection]:
        letters = CountedCollection("letters", "f", 4, "", 1, 200, 30, "letters--1")
        return [replace(letters, document_count=len(self._documents), chunk_count=len(self.texts))]

    def collection(self, name: str) -> Collection:
        return self.counted_collection(name)

    def counted_collection(self, name: str) -> CountedCollection:
        if name != "letters":
            raise UnknownCollectionError(name, ["letters"])
        return self.collections()[0]

    def documents(self, collection: str | None = None, *, limit: int = 100, **_: object) -> list[Document]:
        return list(self._documents.values())[:limit]

    def document(self, document_id: str) -> Document:
        if document_id not in self._documents:
            raise UnknownDocumentError(f"No document {document_id!r}.")
        return self._documents[document_id]

    def jobs(self, **_: object) -> list[Job]:
        return self._jobs

    def submit_delete(self, document_id: str) -> Job:
        self._documents[document_id] = replace(self._documents[document_id], state=DocumentState.DELETING)
        self._jobs.insert(
            0,
            Job(
                "job",
                JobKind.DELETE,
                "letters",
                document_id,
                JobState.QUEUED,
                0,
                0.0,
                None,
                None,
                None,
                1,
                NOW,
                NOW,
                None,
            ),
        )
        return self._jobs[0]

    def add_files(self, collection: str, files: list[Path]) -> list[Document]:
        return [self.add(file.name, file.read_text("utf-8"), state=DocumentState.QUEUED) for file in files]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def build_server(port: int) -> uvicorn.Server:
    catalog = SmallCatalog()
    for title, text in TEXTS.items():
        catalog.add(title, text)
    api = FastAPI()
    api.get("/healthz")(lambda: {"status": "ok"})
    page = build_page(
        search=ConceptSearch(catalog),
        catalog=catalog,  # type: ignore[arg-type]  # only the methods that the page calls
        presets=[Preset("Topic", TOPIC), Preset("Feeling", FEELING)],
        default_steps=12,
        max_steps=20,
        about=AboutInfo(model_name="concepts", version="0.0"),
        examples=[Example("Delighted with my new kettle", TOPIC), Example("So annoyed about the boat", FEELING)],
        add_files=catalog.add_files,
    )
    return uvicorn.Server(uvicorn.Config(mount_page(api, page), host="127.0.0.1", port=port, log_level="warning"))


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    port = free_port()
    server = build_server(port)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server.started, "the server did not start within 30 s"
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(timeout=15)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A page together with what it asked of whom, and what it complained of."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.hosts: set[str | None] = set()
        self.complaints: list[str] = []
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).hostname))
        page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def ask(self, query: str) -> None:
        self.page.get_by_label("Search for").fill(query)
        self.page.get_by_label("Search for").press("Enter")

    def choose_preset(self, name: str) -> None:
        self.page.get_by_label("Look at").click()
        self.page.get_by_role("option", name=name).click()

    def expect_titles(self, titles: Sequence[str]) -> None:
        expect(self.page.locator(".hit h3").nth(0)).to_have_text(titles[0])
        expect(self.page.locator(".hit h3").nth(1)).to_have_text(titles[1])


@pytest.fixture
def watched(browser: Browser, server_url: str) -> Iterator[Watched]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(20_000)
    watched = Watched(page)
    page.goto(server_url)
    page.get_by_label("Search for").wait_for()
    yield watched
    page.close()
    assert watched.hosts - {None} == {"127.0.0.1"}, "the page asked another machine for something"
    assert watched.complaints == []


def test_enter_searches_and_the_instruction_changes_the_order(watched: Watched) -> None:
    watched.ask("I am angry about the ferry")
    watched.expect_titles(["Late again", "A day out"])
    expect(watched.page.locator(".hit").nth(0).locator("mark")).to_contain_text("quay for an hour, furious")

    watched.choose_preset("Feeling")
    watched.expect_titles(["Late again", "Second repair"])
    expect(watched.page.get_by_label("Instruction")).to_have_value(FEELING)
    expect(watched.page.locator(".summary")).to_contain_text("read as")


def test_words_are_grouped_by_steps_and_listed_per_step(watched: Watched) -> None:
    watched.ask("I am angry about the ferry")
    headings = watched.page.locator(".group h3")
    expect(headings).to_have_text(["Steps 1–5", "Steps 6–10 adds", "Steps 11–12 adds"])
    first = watched.page.locator(".group").nth(0)
    expect(first.locator(".token.is-stop")).to_have_text(["the"])
    expect(first.locator(".token", has_text="ferry")).to_be_visible()
    expect(watched.page.locator(".group").nth(1).locator(".token", has_text="island")).to_be_visible()

    watched.page.get_by_text("Every step").click()
    expect(watched.page.locator("table.steps tbody tr")).to_have_count(12)


def test_own_instruction_takes_the_presets_name_away(watched: Watched) -> None:
    instruction = watched.page.get_by_label("Instruction")
    instruction.press("ControlOrMeta+a")
    instruction.press_sequentially("What feeling speaks from it?")
    expect(watched.page.get_by_label("Look at")).to_have_value("Own words")
    watched.page.get_by_label("Search for").fill("I am angry about the ferry")
    instruction.press("Enter")
    watched.expect_titles(["Late again", "Second repair"])
    expect(instruction).to_have_value("What feeling speaks from it?")


def test_an_example_searches_with_one_click(watched: Watched) -> None:
    watched.page.get_by_role("button", name="So annoyed about the boat · Feeling").click()
    watched.expect_titles(["Late again", "Second repair"])
    expect(watched.page.get_by_label("Look at")).to_have_value("Feeling")


def test_an_empty_query_gets_advice(watched: Watched) -> None:
    watched.ask("   ")
    expect(watched.page.get_by_role("alert").filter(has_text="The query is empty")).to_be_visible()


def test_text_of_a_document_never_runs(watched: Watched) -> None:
    watched.ask("hostile")
    expect(watched.page.locator(".hit h3", has_text=HOSTILE)).to_be_visible()
    assert watched.page.evaluate("window.attacked") is None
    assert watched.page.locator(".hit img, .hit script").count() == 0


def test_files_are_added_and_deleted(watched: Watched, tmp_path: Path) -> None:
    page = watched.page
    note = tmp_path / "steam.txt"
    note.write_text("Steam over the harbour.")
    page.get_by_role("tab", name="Documents").click()
    expect(page.locator("table.documents")).to_be_visible()

    page.locator("#documents-files input[type=file]").set_input_files(note)
    expect(page.locator("#documents-files")).to_contain_text("steam")
    page.get_by_role("button", name="Add to collection").click()
    row = page.locator("table.documents tr", has_text="steam.txt")
    expect(row).to_contain_text("waiting")

    page.once("dialog", lambda dialog: dialog.accept())
    row.get_by_role("button").click()
    expect(row).to_contain_text("being deleted")


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(watched: Watched, width: int) -> None:
    watched.page.set_viewport_size({"width": width, "height": 844})
    watched.ask("I am angry about the ferry")
    watched.expect_titles(["Late again", "A day out"])
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
