"""axe-core on every page in its main states: light and dark, on a desktop and on a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from browser import DESKTOP, PHONE, OpenPage
from playwright.sync_api import ViewportSize, expect

LOOKS = pytest.mark.parametrize(
    ("size", "is_dark"),
    [
        pytest.param(DESKTOP, False, id="desktop-light"),
        pytest.param(DESKTOP, True, id="desktop-dark"),
        pytest.param(PHONE, False, id="phone-light"),
        pytest.param(PHONE, True, id="phone-dark"),
    ],
)
Open = Callable[..., OpenPage]
Axe = Callable[[OpenPage], None]


@LOOKS
def test_search_page(open_page: Open, axe: Axe, size: ViewportSize, is_dark: bool) -> None:
    opened = open_page(size=size, is_dark=is_dark)
    page = opened.page
    expect(page.locator(".welcome")).to_be_visible()
    axe(opened)

    page.get_by_text("More settings").click()
    expect(page.get_by_label("Steps of refinement").first).to_be_visible()
    axe(opened)

    opened.search("I am angry about the ferry")
    page.get_by_text("Every step").click()
    page.locator(".token summary").first.click()
    axe(opened)

    page.locator(".token-menu button:visible").first.click()
    expect(page.locator(".chosen")).to_be_visible()
    axe(opened)

    page.get_by_label("Search for").fill(" ")
    page.get_by_label("Search for").press("Enter")
    expect(page.get_by_role("alert").first).to_be_visible()
    axe(opened)
    assert opened.overflows() == []


@LOOKS
def test_documents_page(open_page: Open, axe: Axe, size: ViewportSize, is_dark: bool) -> None:
    opened = open_page("/documents", size=size, is_dark=is_dark)
    expect(opened.page.get_by_text("Late again").first).to_be_visible()
    axe(opened)
    assert opened.overflows() == []
