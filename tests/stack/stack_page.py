"""A search as a person makes it: log in, look for something, see hits."""

from __future__ import annotations

import shutil
from urllib.parse import urlencode

from compose_stack import StackError
from playwright.sync_api import Error, expect, sync_playwright

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or shutil.which("chromium-browser")
_TIMEOUT_MS = 60_000


def search_by_page(url: str, password: str, query: str, collection: str) -> str:
    """What was seen; StackError where no hit appears. Says so where there is no Chromium."""
    if CHROMIUM is None:
        return "left out: there is no Chromium here"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = browser.new_page()
            page.set_default_timeout(_TIMEOUT_MS)
            page.goto(f"{url}/?{urlencode({'q': query, 'c': collection})}")
            page.get_by_label("Name").fill("admin")
            page.get_by_label("Password").fill(password)
            page.get_by_role("button", name="Log in").click()
            expect(page.locator(".hit").first).to_be_visible(timeout=_TIMEOUT_MS)
            return f"{page.locator('.hit').count()} hits"
        except (Error, AssertionError) as error:
            raise StackError(f"the page shows no hit: {error}") from error
        finally:
            browser.close()
