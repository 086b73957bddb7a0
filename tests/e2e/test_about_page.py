"""The about page in the browser, over a working service and over one whose parts fail, on a desktop and on a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from browser import ON_DESKTOP, ON_PHONE, OpenPage, opened_page
from page_application import LETTERS
from playwright.sync_api import BrowserContext, ViewportSize, expect
from served import served

from app.errors import CatalogUnavailableError, VectorIndexUnavailableError
from app.testing import ToyEmbedder
from app.wiring.web import open_web


class Faults:
    """What fails at this moment."""

    def __init__(self) -> None:
        self.index_is_away = False
        self.catalog_is_away = False

    def check_index(self) -> bool:
        if self.index_is_away:
            raise VectorIndexUnavailableError("http://someone:hunter2@index does not answer")
        return True


@pytest.fixture(scope="module")
def faults() -> Faults:
    return Faults()


@pytest.fixture(scope="module")
def faulty_url(toy_services_class: Any, faults: Faults, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with a model that brings no card, whose parts fail when `faults` says so."""
    with ExitStack() as opened, pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("faulty")
        application = toy_services_class(home, opened, embedder=ToyEmbedder())
        application.add("One text.")
        counted = application.services.catalog.collections

        def collections() -> Any:
            if faults.catalog_is_away:
                raise CatalogUnavailableError("The catalog does not answer. Start it again.")
            return counted()

        patch.setattr(application.services.catalog, "collections", collections)
        (home / "model").mkdir()
        (home / "model" / "config.json").write_text("{}")
        services = replace(
            application.services,
            settings=application.services.settings.model_copy(update={"model": str(home / "model")}),
            checks={"catalog": application.services.catalog.is_alive, "index": faults.check_index},
        )
        yield opened.enter_context(served(opened.enter_context(open_web(services))))


@pytest.fixture
def failing_page(window: BrowserContext, faulty_url: str, faults: Faults) -> Iterator[Callable[..., OpenPage]]:
    with ExitStack() as opened:

        def open_about(size: ViewportSize) -> OpenPage:
            page = opened.enter_context(opened_page(window, faulty_url, size=size))
            page.go("/about")
            return page

        yield open_about
    faults.index_is_away = faults.catalog_is_away = False


@ON_DESKTOP
def test_the_page_tells_what_runs_here_and_that_it_works(
    open_page: Callable[..., OpenPage], axe: Callable[[OpenPage], None], size: ViewportSize
) -> None:
    opened = open_page("/about", size=size)
    page = opened.page
    expect(page.get_by_role("heading", level=1)).to_have_text("About gircse-search")
    expect(page.locator("#health")).to_contain_text("All parts work.")
    expect(page.locator(".part.is-works b")).to_contain_text(["documents and settings", "search index", "model"])
    expect(page.locator("#model")).to_contain_text("gircse-small")
    expect(page.locator("#model")).to_contain_text("384")
    expect(page.locator("#card")).to_contain_text("a GIRCSE adapter over all-MiniLM-L6-v2")
    expect(page.locator("#card table").nth(1)).to_contain_text("plain MiniLM")
    expect(page.locator("#collections")).to_contain_text(LETTERS)
    expect(page.locator("#versions")).to_contain_text("transformers")
    expect(page.locator("#help")).to_contain_text("What is a step?")
    assert opened.overflows() == []
    axe(opened)


@ON_PHONE
def test_a_part_that_fails_is_named_with_what_to_do_and_recovers(
    failing_page: Callable[..., OpenPage], faults: Faults, size: ViewportSize
) -> None:
    faults.index_is_away = True
    opened = failing_page(size)
    health = opened.page.locator("#health")
    expect(health).to_contain_text("1 of 2 parts do not work.")
    expect(health.locator(".part.is-fails")).to_contain_text("gircse doctor")
    expect(health).not_to_contain_text("hunter2")
    assert opened.overflows() == []
    faults.index_is_away = False
    opened.page.get_by_role("button", name="Check again").click()
    expect(health).to_contain_text("All parts work.")


@ON_DESKTOP
def test_collections_that_cannot_be_counted_take_nothing_else_away(
    failing_page: Callable[..., OpenPage], faults: Faults, size: ViewportSize
) -> None:
    faults.catalog_is_away = True
    page = failing_page(size).page
    expect(page.locator("#collections").get_by_role("alert")).to_contain_text("The catalog does not answer.")
    expect(page.locator("#model")).to_contain_text("toy")
    expect(page.locator("#health .part")).to_have_count(2)


@ON_PHONE
def test_a_model_without_a_card_says_so(failing_page: Callable[..., OpenPage], size: ViewportSize) -> None:
    opened = failing_page(size)
    expect(opened.page.locator("#card")).to_contain_text("has no card")
    assert opened.overflows() == []
