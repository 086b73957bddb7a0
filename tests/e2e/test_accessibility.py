"""axe-core on every page in its main states: light and dark, on a desktop and on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from browser import (
    DESKTOP,
    IN_THE_DARK,
    IN_THE_LIGHT,
    PHONE,
    OpenPage,
    opened_page,
    structure_faults,
    violations,
)
from page_application import EMPTY, LETTERS, PageApplication
from playwright.sync_api import Browser, BrowserContext, ViewportSize, expect

Open = Callable[..., OpenPage]
Axe = Callable[[OpenPage], None]


PAGES = {
    "/": "Search",
    f"/?q=ferry&c={LETTERS}": "ferry · Search",
    "/compare": "Compare",
    f"/compare?q=ferry&i1=-&i2=Same+feeling&c1={LETTERS}&c2={LETTERS}": "ferry · Compare",
    f"/documents?c={LETTERS}": "Documents",
    f"/documents?c={EMPTY}": "Documents",
    "/saved": "Saved",
    f"/evaluate?c={LETTERS}": "Evaluate",
    "/about": "About",
}


# Shown texts of several words in a part of fewer than 100 pixels.
_SQUEEZED = """() => [...document.querySelectorAll('#content .block')]
  .filter((each) => each.checkVisibility() && !each.matches('.skip-holder') && each.clientWidth < 100)
  .filter((each) => each.innerText.trim().includes(' '))
  .map((each) => `${each.id} ${each.clientWidth} px: ${each.innerText.slice(0, 60)}`)"""


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("path", PAGES)
def test_every_page_has_headings_landmarks_labels_and_a_title(
    open_page: Open, axe: Axe, path: str, size: ViewportSize
) -> None:
    opened = open_page(path, size=size)
    opened.wait_until_still()
    if "q=" in path:
        expect(opened.page.locator("mark").first).to_be_visible()
    assert structure_faults(opened.page, PAGES[path]) == []
    axe(opened)
    assert opened.overflows() == []


@pytest.mark.parametrize(
    ("locale", "chip", "every"),
    [("en-GB", "Remove As in the judgements", "Remove all"), ("de-DE", "Wie im Urteil entfernen", "Alle entfernen")],
)
def test_names_of_controls_make_sense(
    chromium: Browser, page_application: PageApplication, locale: str, chip: str, every: str
) -> None:
    """Names that axe-core accepts: numbers instead of values, English within German, arrows that are read out."""
    with chromium.new_context(locale=locale) as context, opened_page(context, page_application.url) as opened:
        for path in PAGES:
            opened.go(path)
            opened.wait_until_still()
            for closed in opened.page.locator("#content button.label-wrap").all():
                closed.click()
            tree = opened.page.locator("body").aria_snapshot()
            assert re.findall(r'"[^"]*(?:\b(?:range slider|number input) for\b|▼)[^"]*"', tree) == [], path
        opened.go(f"/evaluate?c={LETTERS}")
        expect(opened.page.get_by_role("button", name=chip, exact=True)).to_be_visible()
        expect(opened.page.get_by_role("button", name=every, exact=True)).to_be_visible()


def test_no_unfolded_part_is_squeezed_on_a_phone(open_page: Open) -> None:
    for path in PAGES:
        opened = open_page(path, size=PHONE)
        opened.wait_until_still()
        for closed in opened.page.locator("#content button.label-wrap").all():
            closed.click()
        opened.wait_until_still()
        assert opened.page.evaluate(_SQUEEZED) == [], path
        assert opened.overflows() == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize(("path", "name"), [("/docs", "gircse-search"), ("/no-such-page", "Page not found")])
def test_pages_without_the_frame_have_them_too(
    window: BrowserContext, page_application: PageApplication, axe: Axe, path: str, name: str, size: ViewportSize
) -> None:
    page = window.new_page()
    try:
        page.set_viewport_size(size)
        page.goto(page_application.url + path)
        page.get_by_role("heading").first.wait_for()
        assert structure_faults(page, name) == []
        assert violations(page) == []
    finally:
        page.close()


@IN_THE_DARK
def test_search_page(open_page: Open, axe: Axe, size: ViewportSize, is_dark: bool) -> None:
    opened = open_page(size=size, is_dark=is_dark)
    page = opened.page
    expect(page.locator(".welcome")).to_be_visible()
    axe(opened)

    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_label("Steps of refinement").first).to_be_visible()
    axe(opened)

    opened.search("I am angry about the ferry")
    page.get_by_role("button", name="Details").click()
    page.get_by_text("Every step").click()
    page.locator(".token .word").first.click()
    axe(opened)

    page.locator(".token-menu button:visible").first.click()
    expect(page.locator(".chosen")).to_be_visible()
    axe(opened)

    page.get_by_role("button", name="Answer", exact=True).click()
    expect(page.locator(".cited [role=status][aria-busy=false]")).to_be_visible()
    axe(opened)
    assert opened.overflows() == []

    page.get_by_label("Search for").fill(" ")
    page.get_by_label("Search for").press("Enter")
    expect(page.get_by_role("alert").first).to_be_visible()
    axe(opened)
    assert opened.overflows() == []


@IN_THE_DARK
def test_a_document_that_is_opened(open_page: Open, axe: Axe, size: ViewportSize, is_dark: bool) -> None:
    opened = open_page(f"/?q=ferry&c={LETTERS}&k=1&m=hybrid", size=size, is_dark=is_dark)
    opened.page.locator(".hit .open").first.click()
    expect(opened.page.locator("#document-view dialog[open]")).to_be_visible()
    axe(opened)
    assert opened.overflows() == []


@IN_THE_DARK
def test_compare_page(open_page: Open, axe: Axe, size: ViewportSize, is_dark: bool) -> None:
    opened = open_page("/compare", size=size, is_dark=is_dark)
    axe(opened)
    opened.go(f"/compare?q=angry+ferry&i1=-&i2=Same+feeling&k1=2&k2=6&c1={LETTERS}&c2={LETTERS}")
    expect(opened.page.locator("#comparison mark").first).to_be_visible()
    opened.page.locator("#settings button").first.click()
    axe(opened)
    assert opened.overflows() == []
    opened.go("/compare?q=angry+ferry&c1=absent")
    expect(opened.page.get_by_role("alert").first).to_be_visible()
    axe(opened)


@IN_THE_LIGHT
def test_documents_page(open_page: Open, axe: Axe, size: ViewportSize, is_dark: bool) -> None:
    opened = open_page(f"/documents?c={LETTERS}", size=size, is_dark=is_dark)
    page = opened.page
    expect(page.get_by_text("Late again").first).to_be_visible()
    axe(opened)
    for closed in page.locator("#content button.label-wrap").all():
        closed.click()
    page.locator("#source-address").fill("https://127.0.0.1:9/feed.xml")
    page.get_by_role("button", name="Add source").click()
    expect(page.locator(".sources li")).to_be_visible()
    axe(opened)
    assert opened.overflows() == []
    page.locator("#documents-list .open").first.click()
    expect(page.locator("#document-view dialog[open]")).to_be_visible()
    axe(opened)
    opened.go(f"/documents?c={EMPTY}")
    axe(opened)


@IN_THE_LIGHT
def test_evaluate_page(
    open_page: Open, page_application: PageApplication, axe: Axe, size: ViewportSize, is_dark: bool
) -> None:
    opened = open_page("/evaluate", size=size, is_dark=is_dark)
    page = opened.page
    axe(opened)
    for document in page_application.server.ask(f"/api/v1/documents?collection={LETTERS}").body[:3]:
        judgement = {"document_id": document["id"], "query": "angry ferry", "instruction": "", "grade": 2}
        assert page_application.server.ask("/api/v1/judgements", judgement).status == 200
    opened.go(f"/evaluate?c={LETTERS}")
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator("#evaluate-report table").first).to_be_visible()
    page.evaluate("document.querySelectorAll('#content details').forEach((each) => { each.open = true })")
    axe(opened)
    assert opened.overflows() == []


@IN_THE_DARK
def test_about_page(open_page: Open, axe: Axe, size: ViewportSize, is_dark: bool) -> None:
    opened = open_page("/about", size=size, is_dark=is_dark)
    expect(opened.page.locator("#health").get_by_text("documents and settings").first).to_be_visible()
    opened.page.evaluate("document.querySelectorAll('#content details').forEach((each) => { each.open = true })")
    axe(opened)
    assert opened.overflows() == []
