"""A page whose server goes away and comes back: it loads itself again, and leads to where one logs in if it must."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import TIMEOUT_MS
from playwright.sync_api import Browser, expect
from postgres_server import free_port
from pydantic import SecretStr
from served import served

from app.settings import Settings
from app.testing import ToyEmbedder
from app.wiring.web import open_web

LOST = "Connection to the server was lost"


@contextmanager
def serving(toy_services_class: Any, home: Path, port: int, *, access_control: bool) -> Iterator[str]:
    with ExitStack() as opened:
        services = toy_services_class(home, opened, embedder=ToyEmbedder()).services
        settings = Settings(home=home, access_control=access_control, admin_secret=SecretStr("gs_" + 32 * "x"))
        web = opened.enter_context(open_web(replace(services, settings=settings)))
        yield opened.enter_context(served(web, port=port))


@pytest.mark.parametrize("access_control", [False, True], ids=["without logins", "with logins"])
def test_a_page_is_there_again_with_its_server(
    chromium: Browser, toy_services_class: Any, tmp_path: Path, access_control: bool
) -> None:
    port = free_port()
    with chromium.new_context(locale="en-GB") as context:
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        with serving(toy_services_class, tmp_path, port, access_control=False) as url:
            page.goto(url)
            query = page.locator("#query textarea")
            expect(query).to_be_visible()
            page.wait_for_load_state("networkidle")
            page.evaluate("window.isOld = true")
        query.fill("ferry")
        query.press("Enter")
        expect(page.get_by_text(LOST)).to_be_visible()
        with serving(toy_services_class, tmp_path, port, access_control=access_control):
            page.wait_for_function("!window.isOld")
            if access_control:
                expect(page).to_have_url(re.compile("/login"))
            else:
                expect(query).to_be_visible()
                expect(page.get_by_text(LOST)).to_have_count(0)
