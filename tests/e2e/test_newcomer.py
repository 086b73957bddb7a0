"""The first five minutes of a new person, in a real Chromium on an empty home: from files to an answer."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import DESKTOP, PHONE, WATCH_SHIFTS, OpenPage, opened_page, violations
from gircse_program import Gircse
from own_files import QUESTIONS, write_files
from patience import PATIENCE_S
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

COLLECTION = "my-notes"
PATIENCE_MS = 1_000 * PATIENCE_S
GERMAN_QUESTION = "Wie heiß muss die Milch sein, bevor das Lab für den Käse hineinkommt?"  # two lines


class Person:
    """Clicks, and counts it."""

    def __init__(self, opened: OpenPage) -> None:
        self.opened = opened
        self.page: Page = opened.page
        self.clicks = 0

    def click(self, target: Locator) -> None:
        self.clicks += 1
        target.click()

    def ask(self, question: str) -> None:
        """Typed: what a key moves is no layout shift."""
        field = self.page.get_by_label("Search for")
        field.press("ControlOrMeta+a")
        field.press_sequentially(question)
        self.opened.search(question)

    def go_to(self, name: str) -> None:
        self.judge_look()
        self.clicks += 1
        self.opened.follow(self.page.locator(".site-header nav").get_by_role("link", name=name))
        self.opened.wait_until_still()

    def judge_look(self) -> None:
        self.opened.wait_until_still()
        self.opened.judge_shifts()
        assert self.opened.overflows() == []
        assert self.opened.unreachable() == []
        assert violations(self.page) == []


def add_files(person: Person, files: list[Path]) -> None:
    page = person.page
    expect(page.locator(".worked-example li")).to_have_count(6)
    person.judge_look()
    person.clicks += 1
    person.opened.follow(page.get_by_role("link", name="Add your files"))
    person.opened.wait_until_still()
    field = page.locator("#documents-collection input")
    person.click(field)
    field.fill(COLLECTION)
    field.press("Enter")
    person.click(page.get_by_role("button", name=f"Create collection {COLLECTION}"))
    expect(page.locator(".uploader-target")).to_contain_text(f"“{COLLECTION}”")
    person.clicks += 1  # files dropped
    page.locator("#uploader input[name=files]").set_input_files(files)
    expect(page.locator(".upload-said")).to_contain_text(f"{len(files)} files sent to collection “{COLLECTION}”")
    expect(page.locator(".overview")).to_contain_text(f"{len(files)} ready", timeout=PATIENCE_MS)
    person.judge_look()


def judge_results(opened: OpenPage, most: int) -> None:
    page = opened.page
    expect(page.locator("#collection input")).to_have_value(COLLECTION)
    box = page.locator(".hit").first.bounding_box()
    assert box is not None
    assert box["y"] < most
    opened.judge_shifts()
    names = page.locator(".hit h3, .hit .hit-source").all_text_contents()
    assert not [each for each in names if "upload:" in each or "%20" in each or not each.strip()]
    documents = page.locator(".hits:not(.more-hits .hits) > .hit > article .open")
    ids = [each.get_attribute("data-document") for each in documents.all()]
    assert len(ids) == len(set(ids)), "passages of one document stand apart"
    beginnings = [each.strip() for each in page.locator(".hit .snippet").all_text_contents()]
    assert not [each for each in beginnings if re.match(r"(… )?[,.;:)]", each)], beginnings


def ask_in_german(chromium: Browser, url: str, size: ViewportSize, most: int) -> None:
    with (
        chromium.new_context(locale="de-DE") as own,
        opened_page(own, url, size=size) as opened,
    ):
        opened.go(f"/?collection={COLLECTION}")
        field = opened.page.get_by_label("Suchen nach")
        field.fill(GERMAN_QUESTION)
        field.press("Enter")
        expect(opened.page.locator("#passages .notice")).to_contain_text(
            "Dieses Modell versteht Englisch, nicht Deutsch."
        )
        opened.wait_until_still()
        box = opened.page.locator(".hit").first.bounding_box()
        assert box is not None
        assert box["y"] < most


@pytest.mark.long
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("size", "most"), [(DESKTOP, 320), (PHONE, 420)], ids=["desktop", "phone"])
def test_a_newcomer_gets_answers_from_own_files(
    chromium: Browser,
    gircse_factory: Callable[..., Gircse],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    size: ViewportSize,
    is_dark: bool,
    most: int,
) -> None:
    (tmp_path / "files").mkdir()
    files = write_files(tmp_path / "files")
    assert len(files) == 20
    begun = time.monotonic()
    with (
        gircse_factory().serving(log=tmp_path / "up.log") as server,
        chromium.new_context(locale="en-GB") as own,
        opened_page(own, server.url, size=size, is_dark=is_dark) as opened,
    ):
        person, page = Person(opened), opened.page
        page.add_init_script(WATCH_SHIFTS)
        opened.go("/")
        add_files(person, files)
        person.go_to("Search")
        first, taken = True, 0.0
        for question, (_, passage) in QUESTIONS.items():
            person.ask(question)
            if first:
                taken, clicks, first = time.monotonic() - begun, person.clicks, False
                print(f"first own result after {taken:.1f} s and {clicks} clicks")
                record_property("seconds", round(taken, 1))
            assert any(passage in each for each in page.locator(".hit .snippet").all_text_contents()[:5]), question
            judge_results(opened, most)
        person.judge_look()

        target = page.locator(".hit", has_text="thirty-two degrees").first
        person.click(target.locator(".open").first)
        expect(page.locator("dialog[open] #sentence")).to_contain_text("thirty-two degrees")
        person.click(page.locator("dialog[open]").get_by_role("button", name="Close"))

        titles = page.locator(".hit h3").all_text_contents()
        link = page.url.removeprefix(server.url)
        with (
            chromium.new_context(locale="en-GB") as elsewhere,
            opened_page(elsewhere, server.url, size=size, is_dark=is_dark) as shared,
        ):
            shared.page.add_init_script(WATCH_SHIFTS)
            shared.go(link)
            expect(shared.page.locator("#passages mark").first).to_be_visible()
            shared.wait_until_still()
            assert shared.page.locator(".hit h3").all_text_contents() == titles
            shared.judge_shifts()

        person.ask("recipe for apple pie")
        expect(page.locator("#passages")).to_contain_text("No passage seems to answer this.")

        person.go_to("Documents")
        row = page.locator("table.documents tbody tr", has_text="cheese.html")
        person.click(row.get_by_role("button", name="Delete"))
        expect(row.locator(".state")).to_have_text("being deleted")
        person.click(row.get_by_role("button", name="Undo"))
        expect(row.locator(".state")).to_have_text("ready")
        person.judge_look()
        ask_in_german(chromium, server.url, size, most)
        print(f"{person.clicks} clicks in all")
    assert "Traceback" not in (tmp_path / "up.log").read_text(errors="replace")
