"""The address of the search page is its search, from the moment it begins; Back and Escape do what people expect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from browser import OpenPage
from page_application import EMPTY, LETTERS, PageApplication
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.xdist_group("pages")

Open = Callable[..., OpenPage]
FERRY = "I am angry about the ferry"


def asked(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def entries(page: Page) -> int:
    return int(page.evaluate("history.length"))


def test_every_way_to_begin_a_search_puts_it_into_the_address_at_once(open_page: Open) -> None:
    opened = open_page(f"/?collection={LETTERS}")
    page, query = opened.page, opened.page.get_by_label("Search for")
    expect(page.locator("#collection input")).to_have_value(LETTERS)
    opened.wait_until_still()
    before = entries(page)
    query.fill(FERRY)
    query.press("Enter")
    query.fill("For h")  # typed while the search runs: no part of it
    assert asked(page) == {"q": FERRY, "c": LETTERS, "k": "3"}
    expect(page.locator("#passages mark").first).to_be_visible()
    opened.wait_until_still()
    assert asked(page)["q"] == FERRY
    assert entries(page) == before + 1

    query.fill("a kettle")
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_url(lambda url: "q=a+kettle" in url)
    opened.wait_until_still()
    page.get_by_label("Instruction").fill("Represent the emotion of this text.")
    page.get_by_label("Instruction").press("Enter")
    page.wait_for_url(lambda url: "i=Represent+the+emotion" in url)
    opened.wait_until_still()
    page.locator("#lens input").click()
    page.get_by_role("option", name="No lens").click()
    expect(page.locator(".summary")).to_contain_text("without an instruction")
    assert asked(page) == {"q": "a kettle", "c": LETTERS, "k": "3"}
    opened.wait_until_still()
    page.locator("#facets li", has_text="a customer").get_by_role("button").click()
    expect(page.locator(".hit")).to_have_count(2)
    assert "a customer" in asked(page)["x"]
    assert entries(page) == before + 5

    opened.wait_until_still()
    with opened.loading_again():
        page.go_back()
        expect(page.locator(".hit").nth(2)).to_be_visible()
    assert "x" not in asked(page)
    opened.wait_until_still()
    with opened.loading_again():
        page.go_forward()
        expect(page.locator(".hit")).to_have_count(2)
    expect(query).to_have_value("a kettle")


def test_text_typed_while_the_page_opens_starts_no_search(open_page: Open) -> None:
    opened = open_page(f"/?c={LETTERS}")
    opened.page.add_init_script(
        """new MutationObserver((changes, observer) => {
          const field = document.querySelector('#query textarea');
          if (!field) return;
          observer.disconnect();
          field.value = 'For h';
          field.dispatchEvent(new Event('input', { bubbles: true }));
        }).observe(document, { childList: true, subtree: true })"""
    )
    page = opened.go(f"/?c={LETTERS}")
    expect(page.get_by_label("Search for")).to_have_value("For h")
    expect(page.locator(".welcome")).to_be_visible()
    opened.wait_until_still()
    assert asked(page) == {"c": LETTERS}
    opened.go("/saved")
    expect(page.locator("#search-history")).not_to_contain_text("For h")

    opened.go(f"/?collection={LETTERS}")
    page.get_by_label("Search for").fill(FERRY)  # sent before the page knows its collection
    page.get_by_label("Search for").press("Enter")
    expect(page.locator("#passages mark").first).to_be_visible()
    opened.wait_until_still()
    assert asked(page) == {"q": FERRY, "c": LETTERS, "k": "3"}


def test_back_closes_a_document_and_forward_opens_it(open_page: Open) -> None:
    opened = open_page(f"/?c={LETTERS}")
    opened.search(FERRY)
    page, dialog = opened.page, opened.page.locator("#document-view dialog")
    address, before = page.url, entries(page)
    page.locator(".hit [data-walk]").first.click()
    expect(dialog).to_be_visible()
    page.go_back()
    expect(dialog).to_be_hidden()
    assert page.url == address
    expect(page.locator(".hit").first).to_be_visible()  # the same page: nothing was loaded again
    page.go_forward()
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    opened.search("a kettle")
    assert entries(page) == before + 1  # in the place of the document, which is closed


def test_escape_leaves_a_field(open_page: Open) -> None:
    page = open_page(f"/?c={LETTERS}").page
    query = page.get_by_label("Search for")
    query.fill("ferry")
    page.keyboard.press("Escape")
    expect(query).not_to_be_focused()
    expect(query).to_have_value("ferry")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()


def test_an_empty_collection_leads_to_documents(open_page: Open) -> None:
    opened = open_page(f"/?collection={EMPTY}")
    opened.follow(opened.page.get_by_role("link", name="Add your files"))
    assert urlsplit(opened.page.url).path == "/documents"


def test_the_last_collection_is_remembered(open_page: Open) -> None:
    opened = open_page("/")
    page = opened.page
    page.locator("#collection input").click()
    page.get_by_role("option", name="recipes").click()
    opened.go("/")
    expect(page.locator("#collection input")).to_have_value("recipes")


def test_facets_are_file_types_folders_years_and_own_metadata(
    open_page: Open, page_application: PageApplication
) -> None:
    page_application.server.ask("/api/v1/collections", {"name": "manuals"})
    for folder, name, day in (("cars", "a.txt", "2023-01-02"), ("cars", "b.md", "2024-03-04"), ("boats", "c.md", "x")):
        answer = page_application.server.post_form(
            "/api/v1/documents",
            {
                "collection": "manuals",
                "folder": f"manuals/{folder}",
                "metadata": f'{{"date": "{day}", "owner": "{name}"}}',
            },
            file=(name, f"How to start the engine of {name}".encode(), "text/plain"),
        )
        assert answer.status == 202, answer
    page_application.wait_until_read("manuals")
    page = open_page("/?q=engine&c=manuals").page
    groups = page.locator("#facets section section")
    expect(groups.first).to_be_visible()
    shown: dict[str, Any] = {}
    for group in groups.all():
        shown[group.locator("h3").inner_text()] = group.locator("li button span").all_inner_texts()
    assert shown == {
        "file type": ["md", "txt"],
        "folder": ["cars", "boats"],
        "year": ["2023", "2024"],
        "owner": ["a.txt", "b.md", "c.md"],
    }
    page.locator("#facets li", has_text="boats").get_by_role("button").click()
    expect(page.locator(".hit")).to_have_count(1)
