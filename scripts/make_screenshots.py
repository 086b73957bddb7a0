"""Takes the pictures of docs/images: the page in a headless Chromium over the real service and the sample library.

Without --url it starts a service of its own.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from make_tour import TOUR
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright
from sample_service import sample_url

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SIZE: ViewportSize = {"width": 1280, "height": 860}
TIMEOUT_MS = 120_000
SETTLE_MS = 1_000
# While an answer is on its way the page shows the last one faded.
OPAQUE = """() => {
    for (let node = document.querySelector(".hit"); node; node = node.parentElement)
        if (Number(getComputedStyle(node).opacity) < 1) return false;
    return true;
}"""
PRESET = "Same place"


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("Chromium is not installed; on Debian: apt install chromium")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sample_url(__doc__) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(url)
        search(page, TOUR[0][0], PRESET)
        page.screenshot(path=IMAGES / "search.png")
        browser.close()


def search(page: Page, query: str, preset: str) -> None:
    page.get_by_label("Search for").fill(query)
    page.get_by_label("Look at").click()
    page.get_by_role("option", name=preset).click()  # searches at once
    expect(page.locator(".hit mark").first).to_be_visible(timeout=TIMEOUT_MS)
    expect(page.locator(".group .token").first).to_be_visible(timeout=TIMEOUT_MS)
    page.wait_for_timeout(SETTLE_MS)
    page.wait_for_function(OPAQUE, timeout=TIMEOUT_MS)


if __name__ == "__main__":
    main()
