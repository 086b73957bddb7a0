"""Two applications with real model, engine, catalog, worker and server: the sample library, and a handful of texts for
the tests of the pages. Each is taken in once per test run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from browser import AXE_SCRIPTS, CHROMIUM, OpenPage, opened_page, running_browser, violations
from gircse_program import Gircse, Server
from hostile import take_in
from page_application import PageApplication, fill, serving_pages
from playwright.sync_api import Browser, BrowserContext

SAMPLE = "sample"
PAGES = "pages"
HOSTILE_PAGES = "hostile pages"


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever needs one of the applications runs in one process of pytest-xdist; the others do not wait for it."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        if "sample_gircse" in names:
            item.add_marker(pytest.mark.xdist_group(SAMPLE))
        elif "page_application" in names:
            item.add_marker(pytest.mark.xdist_group(PAGES))
        elif "hostile_application" in names:
            item.add_marker(pytest.mark.xdist_group(HOSTILE_PAGES))


@pytest.fixture
def gircse_factory(tmp_path: Path) -> Callable[..., Gircse]:
    """Installations with an empty home each."""

    def build(name: str = "home", *, settings: Mapping[str, str] | None = None) -> Gircse:
        return Gircse(home=tmp_path / name, settings=settings or {})

    return build


@pytest.fixture(scope="session")
def sample_gircse(tmp_path_factory: pytest.TempPathFactory) -> Gircse:
    """The installation whose home `sample_server` serves; commands find its engine and worker running."""
    return Gircse(home=tmp_path_factory.mktemp("sample-home"), settings={})


@pytest.fixture(scope="session")
def sample_server(sample_gircse: Gircse) -> Iterator[Server]:
    """`gircse up --sample`, once every text of the sample library is searchable."""
    with sample_gircse.serving("--sample") as server:
        server.wait_until_idle(SAMPLE)
        yield server


@pytest.fixture(scope="session")
def page_application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageApplication]:
    """The texts of page_application.py, searchable. Tests may add collections of their own, and change no other."""
    folder = tmp_path_factory.mktemp("page-application")
    with serving_pages(Gircse(home=folder / "home", settings={}), folder / "up.log") as application:
        fill(application)
        yield application


@pytest.fixture(scope="session")
def hostile_application(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[PageApplication]:
    """The same with what hostile.py has, all of it with --long: its lenses stand in every list, so no other test
    should meet them."""
    folder = tmp_path_factory.mktemp("hostile-application")
    with serving_pages(Gircse(home=folder / "home", settings={}), folder / "up.log") as application:
        fill(application)
        take_in(application, is_whole=request.config.getoption("--long"))
        yield application


@pytest.fixture(scope="module")  # not longer: Playwright's event loop would be in the way of asynchronous tests
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def window(chromium: Browser) -> Iterator[BrowserContext]:
    """For `opened_page`: what its pages have loaded is not loaded again."""
    with chromium.new_context(locale="en-GB") as context:
        yield context


@pytest.fixture
def open_page(window: BrowserContext, page_application: PageApplication) -> Iterator[Callable[..., OpenPage]]:
    """Windows on its pages: `open_page("/", size=PHONE, is_dark=True)`. When the test ends each of them
    must have asked no other machine, complained of nothing, and opened no dialog that was not expected."""
    with ExitStack() as opened:

        def open_at(path: str = "/", **options: Any) -> OpenPage:
            entered: AbstractContextManager[OpenPage] = opened_page(window, page_application.url, **options)
            page = opened.enter_context(entered)
            page.go(path)
            return page

        yield open_at


@pytest.fixture(scope="module")
def axe(request: pytest.FixtureRequest) -> Callable[[OpenPage], None]:
    """Asserts that axe-core finds nothing on the page as it is now: by default where a test is about just that,
    with --long after the actions of all others, too."""
    if request.module.__name__ not in ("test_accessibility", "test_browser") and not request.config.getoption("--long"):
        return lambda opened: None
    if not AXE_SCRIPTS:
        pytest.skip("axe-core is not installed (`make test` does that where npm is)")

    def check(opened: OpenPage) -> None:
        opened.wait_until_still()
        found = violations(opened.page)
        if found:  # perhaps an answer came in between, and what it replaces was fading
            opened.wait_until_still()
            found = violations(opened.page)
        assert not found, "\n".join(found)
        assert opened.unreachable() == []

    return check
