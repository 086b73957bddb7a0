"""The documents page in a real Chromium over a real service, whose model alone is small: see documents_application."""

from __future__ import annotations

import http.server
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from documents_application import serving_documents
from patience import PATIENCE_S, wait_until
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect
from served import in_thread
from source_origins import BareRepository

from app.types.documents import DocumentState
from ingest.readers import SUFFIXES
from ui.documents_handlers import PAGE_SIZE

pytestmark = pytest.mark.xdist_group("documents-page")

PATIENCE_MS = 1_000 * PATIENCE_S
DESKTOP, PHONE = 1280, 390
# What the page does is tested at one width, and at the other one with --long.
ON_DESKTOP = pytest.mark.parametrize("width", [DESKTOP, pytest.param(PHONE, marks=pytest.mark.long)])
ON_PHONE = pytest.mark.parametrize("width", [pytest.param(DESKTOP, marks=pytest.mark.long), PHONE])
HOSTILE = "<img src=x onerror=window.attacked=1> ${window.attacked=1} {{value}}"
BROKEN = b"%PDF-1.4 is all there is"

_numbers = itertools.count(1)


class Service:
    """A running service, its application, and a client for its API."""

    def __init__(self, url: str, application: Any) -> None:
        self.url = url
        self.application = application
        self.catalog = application.services.catalog
        self.client = httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE_S)

    def make_collection(self, **settings: object) -> str:
        name = f"shelf-{next(_numbers)}"
        self.client.post("/api/v1/collections", json={"name": name, **settings}).raise_for_status()
        return name

    def add(self, collection: str, text: str, uri: str) -> None:
        body = {"collection": collection, "text": text, "uri": uri, "title": uri}
        self.client.post("/api/v1/documents", json=body).raise_for_status()


@pytest.fixture(scope="module")
def service(toy_services_class: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving_documents(toy_services_class, tmp_path_factory.mktemp("documents")) as (url, application):
        yield Service(url, application)


class Shown:
    """The page of one collection, as a person sees it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.hosts: set[str | None] = set()
        self.errors: list[str] = []
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).hostname))
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def row(self, title: str) -> Locator:
        return self.page.locator("table.documents tbody tr", has_text=title)

    def state(self, title: str) -> Locator:
        return self.row(title).locator(".state")

    def press(self, label: str, *, of: str) -> None:
        self.row(of).get_by_role("button", name=label).click()

    def send(self, *paths: Path) -> None:
        self.page.locator("#uploader input[name=files]").set_input_files(list(paths))

    def open_settings(self) -> None:
        self.page.get_by_role("button", name="Collection settings").click()

    def expect_message(self, text: str) -> None:
        expect(self.page.locator("#documents-message")).to_contain_text(text)


@pytest.fixture
def shown_factory(window: BrowserContext, service: Service) -> Iterator[Callable[..., Shown]]:
    opened: list[Shown] = []

    def open_page(collection: str = "", *, width: int = DESKTOP) -> Shown:
        page = window.new_page()
        page.set_viewport_size({"width": width, "height": 844})
        page.set_default_timeout(PATIENCE_MS)
        page.on("dialog", lambda dialog: dialog.accept())
        shown = Shown(page)
        page.goto(f"{service.url}/documents" + (f"?c={collection}" if collection else ""))
        if collection:
            page.locator(f'#documents-list [data-collection="{collection}"]').wait_for(state="attached")
        opened.append(shown)
        return shown

    yield open_page
    for shown in opened:
        assert shown.hosts - {None} == {"127.0.0.1"}, "the page asked another machine for something"
        assert shown.errors == []
        shown.page.close()


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    """A folder with a folder in it, a hidden file, and a PDF that ends too early."""
    folder = tmp_path / "papers"
    (folder / "towns").mkdir(parents=True)
    (folder / "ferry.txt").write_text("The ferry was due at seven. I stood on the quay for an hour.")
    paragraphs = (f"Town number {number} has a harbour with boats and a lighthouse." for number in range(400))
    (folder / "towns" / "harbour.md").write_text("\n\n".join(paragraphs))
    (folder / "towns" / "broken.pdf").write_bytes(BROKEN)
    (folder / ".hidden").write_text("nobody wants this")
    return folder


@ON_PHONE
def test_a_folder_is_sent_read_opened_filtered_and_deleted(
    shown_factory: Callable[..., Shown], service: Service, papers: Path, width: int
) -> None:
    name = service.make_collection()
    shown = shown_factory(name, width=width)
    page = shown.page
    expect(page.locator("#documents-list")).to_contain_text("No documents yet")
    page.locator("#uploader input[name=folder]").set_input_files(papers)
    expect(page.locator(".upload-said")).to_contain_text(
        f"3 files sent to collection “{name}”. You can leave this page"
    )
    expect(shown.state("harbour")).to_have_text("ready")
    expect(shown.row("harbour")).to_contain_text("papers/towns/harbour.md · ")
    expect(shown.state("broken.pdf")).to_have_text("failed")
    expect(shown.state("ferry")).to_have_text("ready")
    expect(page.locator(".overview")).to_contain_text("2 ready")
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    page.get_by_role("button", name="harbour", exact=True).click()
    dialog = page.locator("dialog[open]")
    expect(dialog).to_contain_text("Town number 0 has a harbour")
    dialog.get_by_role("button", name="Later").click()
    expect(dialog).to_contain_text("Town number 120 has a harbour")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)

    page.get_by_label("Filter").fill("FERRY")
    page.get_by_label("Filter").press("Enter")
    expect(page.locator("table.documents tbody tr")).to_have_count(1)
    shown.press("Delete", of="ferry")
    expect(shown.row("ferry").get_by_role("button", name="Undo")).to_be_focused()  # the keyboard stays where it was
    shown.expect_message("“ferry” was deleted")
    expect(shown.state("ferry")).to_have_text("being deleted")
    assert [each.title for each in service.catalog.find_documents(name, state=DocumentState.READY)] == ["harbour"]
    shown.press("Undo", of="ferry")
    expect(shown.state("ferry")).to_have_text("ready")


@ON_PHONE
def test_a_failure_says_why_and_offers_to_try_again_only_what_a_new_attempt_can_change(
    shown_factory: Callable[..., Shown], service: Service, papers: Path, width: int
) -> None:
    name = service.make_collection()
    shown = shown_factory(name, width=width)
    (papers / "notes.txt").write_text("")
    shown.send(papers / "notes.txt")
    expect(shown.row("notes.txt").locator(".document-error")).to_contain_text("This document is empty")
    expect(shown.state("notes.txt")).to_have_text("failed")
    expect(shown.row("notes.txt").locator(".document-buttons button")).to_have_text(["Delete"])
    (document,) = service.catalog.find_documents(name)
    shown.page.get_by_role("button", name="Retry all failed").click()
    shown.expect_message("1 document is being reindexed")
    for _ in range(100):
        if service.catalog.latest_jobs([document.id])[document.id].attempts == 1:
            break
        shown.page.wait_for_timeout(100)
    assert service.catalog.latest_jobs([document.id])[document.id].attempts == 1

    (papers / "notes.txt").write_text("Now there is something to read.")
    shown.send(papers / "notes.txt")
    expect(shown.state("notes")).to_have_text("ready")


class _Pages(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # the name it has there
        pass


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """A web site on this machine with one page."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "page.html").write_text("<title>On tides</title><p>The tide comes twice a day.</p>")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Pages, directory=str(tmp_path / "site")))
    with in_thread(server):
        yield f"http://127.0.0.1:{server.server_port}"


@ON_DESKTOP
def test_web_pages_are_fetched_and_those_that_are_not_there_say_so(
    shown_factory: Callable[..., Shown], service: Service, web: str, width: int
) -> None:
    shown = shown_factory(service.make_collection(), width=width)
    page = shown.page
    page.get_by_role("button", name="Add web pages").click()
    page.get_by_label("Addresses").fill("file:///etc/passwd")
    page.get_by_role("button", name="Fetch", exact=True).click()
    shown.expect_message("is not a URL of a web page")

    page.get_by_label("Addresses").fill(f"{web}/page.html\n\n{web}/absent.html\n")
    page.get_by_role("button", name="Fetch", exact=True).click()
    shown.expect_message("2 pages are being fetched")
    expect(shown.state("On tides")).to_have_text("ready")
    failed = page.locator(".fetches li", has_text="absent.html")
    expect(failed).to_contain_text("404")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    failed.get_by_role("button", name="Dismiss").click()
    expect(failed).to_have_count(0)


@ON_PHONE
def test_a_collection_is_made_and_deleted_only_by_its_own_name(
    shown_factory: Callable[..., Shown], service: Service, papers: Path, width: int
) -> None:
    shown = shown_factory(service.make_collection(), width=width)
    page, name = shown.page, f"letters-{width}"
    page.get_by_role("button", name="New collection").click()
    page.locator("#new-name").get_by_label("Name").fill("No Name!")
    page.get_by_role("button", name="Create collection", exact=True).click()
    shown.expect_message("cannot name a collection")
    page.locator("#new-name").get_by_label("Name").fill(name)
    page.locator("#new-tokens input, #new-tokens textarea").fill("100")
    page.locator("#new-overlap input, #new-overlap textarea").fill("90")
    page.get_by_role("button", name="Create collection", exact=True).click()
    shown.expect_message("half of chunk_tokens")
    page.locator("#new-overlap input, #new-overlap textarea").fill("10")
    page.get_by_role("button", name="Create collection", exact=True).click()
    shown.expect_message(f"“{name}” was created")
    assert (service.catalog.collection(name).chunk_tokens, service.catalog.collection(name).chunk_overlap) == (100, 10)
    expect(page.locator("#documents-collection input")).to_have_value(name)
    shown.send(papers / "ferry.txt")  # which the message asked for
    expect(page.locator(".upload-said")).to_contain_text(f"1 file sent to collection “{name}”")
    expect(page.locator("#documents-message .notice")).to_be_hidden()

    shown.open_settings()
    page.get_by_label("To delete this collection").fill("another")
    page.get_by_role("button", name="Delete collection").click()
    shown.expect_message(f"type its name: {name}")
    page.get_by_label("To delete this collection").fill(name)
    page.get_by_role("button", name="Delete collection").click()
    shown.expect_message(f"“{name}” was deleted")
    expect(page.get_by_label("To delete this collection")).to_be_hidden()  # it would delete the next one
    assert name not in [each.name for each in service.catalog.collections()]


def test_reading_goes_on_when_the_page_is_closed_and_can_be_cancelled(
    shown_factory: Callable[..., Shown], service: Service, papers: Path
) -> None:
    name = service.make_collection()
    shown = shown_factory(name)
    unblocked = service.application.embedder.unblocked
    unblocked.clear()
    try:
        shown.send(papers / "towns" / "harbour.md")
        expect(shown.state("harbour")).to_have_text("indexing 5 %")
        shown.send(papers / "ferry.txt")
        expect(shown.row("ferry").get_by_role("button", name="Cancel")).to_be_visible()
        shown.press("Cancel", of="ferry")
        expect(shown.state("ferry")).to_have_text("cancelled")
        shown.page.goto("about:blank")
    finally:
        unblocked.set()
    again = shown_factory(name)
    expect(again.state("harbour")).to_have_text("ready")
    again.press("Retry", of="ferry")
    expect(again.state("ferry")).to_have_text("ready")


def test_a_collection_is_indexed_anew_while_the_page_is_closed_and_taken_back(
    shown_factory: Callable[..., Shown], service: Service
) -> None:
    name = service.make_collection()
    for number in range(3):
        service.add(name, f"Town {number} has a harbour. " * 30, f"town-{number}")
    shown = shown_factory(name)
    expect(shown.page.locator(".overview")).to_contain_text("3 ready")
    shown.open_settings()
    tokens = shown.page.locator("#change-tokens input, #change-tokens textarea")
    expect(tokens).to_have_value("200")
    shown.page.get_by_role("button", name="Reindex with these settings").click()
    shown.expect_message("already has these settings")

    unblocked = service.application.embedder.unblocked
    tokens.fill("40")
    shown.page.locator("#change-overlap input, #change-overlap textarea").fill("5")
    shown.page.get_by_role("button", name="Reindex with these settings").click()
    shown.expect_message("Reindexing “")
    unblocked.clear()
    try:
        shown.page.goto("about:blank")
    finally:
        unblocked.set()
    again = shown_factory(name)
    again.open_settings()
    expect(again.page.locator("#settings-facts")).to_contain_text("Reindexed: 3 documents")
    expect(again.page.locator("#settings-facts")).to_contain_text("40 tokens, overlap 5")
    again.page.get_by_role("button", name="Restore previous index").click()
    again.expect_message(f"{name}--1")
    expect(again.page.locator("#settings-facts")).to_contain_text("200 tokens, overlap 30")
    again.page.get_by_role("button", name="Pause indexing").click()
    expect(again.page.get_by_role("button", name="Resume indexing")).to_be_visible()
    assert service.catalog.collection(name).is_paused


def test_a_long_list_has_pages_and_keeps_the_focus_when_it_is_drawn_again(
    shown_factory: Callable[..., Shown], service: Service
) -> None:
    name = service.make_collection()
    for number in range(PAGE_SIZE + 3):
        service.add(name, f"Town {number} has a harbour.", f"town-{number}")
    shown = shown_factory(name)
    page = shown.page
    expect(page.locator(".overview")).to_contain_text(f"{PAGE_SIZE + 3} ready")
    expect(page.locator("table.documents tbody tr")).to_have_count(PAGE_SIZE)
    page.get_by_role("button", name="Older", exact=True).click()
    expect(page.locator("table.documents tbody tr")).to_have_count(3)
    expect(page.locator(".paging")).to_contain_text(f"{PAGE_SIZE + 1}–{PAGE_SIZE + 3} of {PAGE_SIZE + 3}")

    page.get_by_role("button", name="town-1", exact=True).focus()
    service.add(name, "One more.", "town-last")
    expect(page.locator("table.documents tbody tr")).to_have_count(4)
    expect(page.get_by_role("button", name="town-1", exact=True)).to_be_focused()


@pytest.mark.parametrize("is_entered", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_name_that_is_written_before_the_page_was_ready_stays(
    shown_factory: Callable[..., Shown], service: Service, is_entered: bool
) -> None:
    page, name = shown_factory(service.make_collection()).page, f"new-shelf-{next(_numbers)}"
    held: list[Route] = []
    page.route("**/queue/join*", lambda route: held.append(route) if not held else route.continue_())
    page.reload()
    field = page.locator("#documents-collection input")
    field.fill(name)
    if is_entered:
        field.press("Enter")
    page.wait_for_timeout(500)
    held[0].continue_()
    with page.expect_response("**/queue/data*"):
        pass
    page.wait_for_timeout(500)
    expect(field).to_have_value(name)
    if not is_entered:
        field.press("Enter")
    page.get_by_role("button", name=f"Create collection {name}").click()
    expect(page.get_by_role("heading", name="No documents yet")).to_be_visible()
    expect(field).to_have_value(name)


def test_files_go_into_a_collection_by_its_name_are_moved_and_taken_back_while_they_are_read(
    shown_factory: Callable[..., Shown], service: Service, papers: Path
) -> None:
    other = service.make_collection()
    shown = shown_factory(other)
    page, name = shown.page, f"new-shelf-{next(_numbers)}"
    expect(page.locator(".uploader-target")).to_have_text(f"to the collection “{other}”")
    field = page.locator("#documents-collection input")
    field.fill("helf")  # a part of names that are there
    field.press("Enter")
    expect(page.get_by_role("button", name="Create collection helf", exact=True)).to_be_visible()
    field.fill(other)
    field.press("ArrowDown")
    field.press("Enter")
    expect(page.locator(".uploader-target")).to_have_text(f"to the collection “{other}”")
    field.fill(name.replace("-", " ").title())
    field.press("Enter")
    expect(page.get_by_role("button", name=f"Create collection {name}")).to_be_visible()
    expect(page.locator(".uploader-target")).to_have_text(f"to the new collection “{name}”")
    page.get_by_role("button", name=f"Create collection {name}").click()
    expect(page.locator(".uploader-target")).to_have_text(f"to the collection “{name}”")
    expect(field).to_have_value(name)
    expect(page.locator("#documents-message .notice")).to_have_count(0)
    expect(page.locator("#collection-offer").get_by_role("button")).to_have_count(0)
    unblocked = service.application.embedder.unblocked
    unblocked.clear()
    try:
        (papers / "quay.txt").write_text("The quay is long.")
        shown.send(papers / "quay.txt", papers / "towns" / "harbour.md")
        expect(page.locator(".upload-said")).to_contain_text(f"2 files sent to collection “{name}”.")
        expect(page.locator(".state", has_text="indexing").first).to_be_visible()
        page.locator(".upload-undo select").select_option(other)
        page.locator(".upload-undo").get_by_role("button", name="Move").click()
        expect(page.locator(".upload-said")).to_have_text(f"2 files moved to collection “{other}”.")
        assert service.catalog.count_documents(other)[DocumentState.QUEUED] == 2
        page.locator(".upload-undo").get_by_role("button", name="Undo").click()
        expect(page.locator(".upload-said")).to_contain_text("Upload undone")
    finally:
        unblocked.set()
    expect(page.locator("table.documents tbody tr")).to_have_count(0)
    for _ in range(100):
        if not service.catalog.documents(other):
            break
        page.wait_for_timeout(100)
    assert service.catalog.documents(other) == []
    # What was chosen last is in the links, and what another page begins with.
    assert page.locator(".site-header nav a", has_text="Search").get_attribute("href") == f"/?collection={name}"
    page.goto(f"{service.url}/documents")
    expect(page.locator("#documents-collection input")).to_have_value(name)


def test_selected_documents_are_moved_and_deleted_and_it_is_undone(
    shown_factory: Callable[..., Shown], service: Service
) -> None:
    other, name = service.make_collection(), service.make_collection()
    for number in range(3):
        service.add(name, f"Town {number} has a harbour.", f"town-{number}")
    shown = shown_factory(name)
    page, bar, message = shown.page, shown.page.locator(".selection"), shown.page.locator("#documents-message")
    expect(page.locator(".overview")).to_contain_text("3 ready")
    expect(bar).to_be_hidden()
    page.get_by_label("Select town-0").check()
    page.get_by_label("Select town-2").check()
    expect(bar).to_contain_text("2 documents selected")
    bar.locator("select").select_option(other)
    bar.get_by_role("button", name="Move").click()
    shown.expect_message(f"2 documents were moved to collection “{other}”")
    expect(page.locator(".overview")).to_contain_text("1 ready")
    assert {each.uri for each in service.catalog.documents(other)} == {"town-0", "town-2"}
    message.get_by_role("button", name="Undo").click()
    shown.expect_message(f"to collection “{name}”")
    expect(page.locator(".overview")).to_contain_text("3 ready")
    expect(bar).to_be_hidden()
    page.get_by_label("Select all on this page").check()
    bar.get_by_role("button", name="Delete").click()
    shown.expect_message("3 documents were deleted")
    expect(page.locator(".overview")).to_contain_text("3 being deleted")
    message.get_by_role("button", name="Undo").click()
    expect(page.locator(".overview")).to_contain_text("3 ready")
    # Closed accordions have no scrollbars.
    assert (
        page.evaluate("""[...document.querySelectorAll('.gr-accordion')].filter((each) =>
        each.scrollWidth > each.clientWidth && getComputedStyle(each).overflowX !== 'visible').length""")
        == 0
    )


def test_untrusted_names_and_reasons_stay_text(
    shown_factory: Callable[..., Shown], service: Service, tmp_path: Path
) -> None:
    name = service.make_collection()
    service.add(name, f"{HOSTILE}</div></dialog><script>window.attacked=1</script>", f"upload://{HOSTILE}.txt")
    bad = tmp_path / f"{HOSTILE.replace('/', '')}.pdf"
    bad.write_bytes(b"%PDF-1.7 and then nothing")
    shown = shown_factory(name)
    shown.send(bad)
    expect(shown.page.locator("table.documents tbody tr")).to_have_count(2)
    shown.page.locator("button.open").last.click()
    expect(shown.page.locator("dialog[open]")).to_contain_text("<script>window.attacked=1</script>")
    shown.page.locator("dialog[open]").get_by_role("button", name="Close").click()
    assert shown.page.evaluate("window.attacked") is None
    assert shown.page.locator("#content img").count() == 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_suffix_under_hostile_names_is_sent_by_the_browser_and_read(
    shown_factory: Callable[..., Shown], service: Service
) -> None:
    """As much of the names as a browser gives a file: no slash."""
    befores = [
        "report[1]",
        " two  words ",
        "C# #2",
        "what?a=b&c",
        "50%25",
        "\u202etxt\u05d0",
        "ü" * 100,
        "two\nlines",
        "\"a' <b>",
    ]
    # Those of which JSON is one.
    read = [suffix for suffix, kind in SUFFIXES.items() if kind.startswith("text/") or "json" in kind]
    assert {".jsonl", ".log", ".yaml", ".rs", ".ts", ".sh", ".c"} <= set(read)
    names = [f"{befores[number % len(befores)]}{number}{suffix}" for number, suffix in enumerate(read)]
    collection = service.make_collection()
    page = shown_factory(collection).page
    page.locator("#uploader input[name=files]").set_input_files(
        [{"name": name, "mimeType": "", "buffer": b'{"text": "The ferry was late again."}\n'} for name in names]
    )
    ended = {DocumentState.READY, DocumentState.FAILED}

    def have_ended() -> bool:
        documents = service.catalog.documents(collection, limit=1_000)
        return len(documents) == len(names) and {each.state for each in documents} <= ended

    wait_until(have_ended, every_s=0.5)
    documents = service.catalog.documents(collection, limit=1_000)
    assert {each.name: each.error for each in documents} == dict.fromkeys(names)


def test_the_first_files_of_all_make_a_collection(
    window: BrowserContext, toy_services_class: Any, tmp_path: Path, papers: Path
) -> None:
    (tmp_path / "home").mkdir()
    with serving_documents(toy_services_class, tmp_path / "home") as (url, _):
        page = window.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{url}/documents")
        expect(page.locator("#documents-list")).to_contain_text("Nothing here yet")
        expect(page.locator(".uploader-target")).to_have_text("to the new collection “library”")
        page.locator("#uploader input[name=files]").set_input_files(papers / "ferry.txt")
        expect(page.locator("#documents-collection input")).to_have_value("library")
        expect(page.locator("table.documents tbody tr", has_text="ferry").locator(".state")).to_have_text("ready")
        page.close()


def test_files_that_the_server_refuses_are_named_with_the_reason(
    shown_factory: Callable[..., Shown], service: Service, papers: Path
) -> None:
    name = service.make_collection()
    shown = shown_factory(name)
    service.application.services.library.delete_collection(name)
    shown.send(papers / "ferry.txt")
    expect(shown.page.locator(".upload-errors")).to_contain_text(f"ferry.txt: No collection named '{name}'")
    expect(shown.page.locator(".upload-said")).to_contain_text("1 failed")
    service.client.post("/api/v1/collections", json={"name": name}).raise_for_status()
    shown.page.get_by_role("button", name="Retry upload").click()
    expect(shown.page.locator(".upload-said")).to_contain_text(f"1 file sent to collection “{name}”")
    expect(shown.page.locator(".upload-errors li")).to_have_count(0)


@ON_DESKTOP
def test_a_source_comes_again_from_the_page(
    shown_factory: Callable[..., Shown], service: Service, tmp_path: Path, width: int
) -> None:
    repository = BareRepository(tmp_path)
    repository.put("docs/tide.md", "The tide comes twice a day.")
    repository.put("notes/heron.md", "A grey heron.")
    shown = shown_factory(service.make_collection(), width=width)
    page = shown.page
    page.get_by_role("button", name="Scheduled sources").click()
    form = page.locator("#source-form")
    form.get_by_label("Kind").select_option("git")
    form.get_by_label("Address").fill("file://elsewhere/handbook.git")
    form.get_by_role("button", name="Add source").click()
    expect(page.get_by_role("alert")).to_contain_text("names no repository")
    form.get_by_label("Address").fill(repository.bare.as_uri())
    form.get_by_label("Only these paths").fill("docs/")
    form.get_by_label("Documents missing at the source").select_option("yes")
    form.get_by_role("button", name="Add source").click()
    listed = page.locator(".sources li")
    expect(listed).to_contain_text("1 document ")
    expect(listed).to_contain_text("every day")
    expect(listed).to_contain_text("1 changed, 0 removed, 0 failed")
    expect(shown.row("tide")).to_be_visible()
    expect(shown.row("heron")).to_have_count(0)
    repository.delete("docs/tide.md")
    repository.put("docs/oven.md", "The oven is hot.")
    listed.get_by_role("button", name="Sync now").click()
    shown.expect_message("will be synced as soon as the server is free")
    expect(shown.row("oven")).to_be_visible()
    expect(shown.row("tide")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    listed.get_by_role("button", name="Delete").click()
    expect(listed).to_have_count(0)
    expect(shown.row("oven")).to_be_visible()
