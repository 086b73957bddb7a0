"""Every page over the sample library shows its main parts, in light and dark, on a desktop and on a phone.

With --screenshots (`make screenshots`) the pictures of docs/images are taken along the way; they need both colours at
both widths.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlencode

import pytest
from browser import PHONE, OpenPage, opened_page
from gircse_program import Server
from playwright.sync_api import BrowserContext, ViewportSize, expect

pytestmark = pytest.mark.timeout(900)  # the first test waits for the sample library

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PICTURE: ViewportSize = {"width": 1280, "height": 860}
PLACE = "Identify the region of the world the text is about."
TOPIC = "Identify the topic of the text, such as economy, government or geography."
QUERY = "The navy of Samoa has no warships, only patrol boats."
JUDGED = 6
SHOWN_BY_DEFAULT = "search"  # tests of their own look at the other pages over the texts of page_application.py


def address(path: str, **parameters: object) -> str:
    return f"{path}?{urlencode({'c': 'sample', **parameters})}"


def show_search(opened: OpenPage) -> None:
    opened.go(address("/", q=QUERY, i=PLACE))
    for part in (".hit mark", ".reading .token", ".hit-score"):
        expect(opened.page.locator(part).first).to_be_visible()


def show_compare(opened: OpenPage) -> None:
    opened.go(address("/compare", q=QUERY, i1=PLACE, i2=TOPIC, c1="sample", c2="sample"))
    expect(opened.page.locator("#comparison mark").first).to_be_visible()
    expect(opened.page.locator("#reading-b .token").first).to_be_visible()


def show_documents(opened: OpenPage) -> None:
    opened.go(address("/documents"))
    expect(opened.page.locator("table.documents tbody tr").first).to_be_visible()


def show_saved(opened: OpenPage) -> None:
    for lens in (PLACE, TOPIC):
        opened.go(address("/", q=QUERY, i=lens))
        expect(opened.page.locator(".hit mark").first).to_be_visible()
        opened.wait_until_still()
    opened.go("/saved")
    expect(opened.page.locator("#saved-searches li").nth(1)).to_be_visible()
    expect(opened.page.locator("#search-history li").nth(1)).to_be_visible()


def show_evaluate(opened: OpenPage) -> None:
    opened.go(address("/evaluate"))
    opened.wait_until_still()
    if not opened.page.locator("#evaluate-report table").count():
        opened.page.get_by_role("button", name="Evaluate").click()
    expect(opened.page.locator("#evaluate-report table").first).to_be_visible(timeout=300_000)


def show_about(opened: OpenPage) -> None:
    opened.go("/about")
    expect(opened.page.locator("#health").get_by_text("documents and settings").first).to_be_visible()


PAGES: dict[str, Callable[[OpenPage], None]] = {
    "search": show_search,
    "compare": show_compare,
    "documents": show_documents,
    "saved": show_saved,
    "evaluate": show_evaluate,
    "about": show_about,
}


@pytest.fixture(scope="module")
def judged_server(sample_server: Server, request: pytest.FixtureRequest) -> Server:
    """With judgements of some planted queries: documents that carry the label of a view answer it."""
    is_asked = request.config.getoption("--screenshots")
    rows = [json.loads(line) for line in files("sample").joinpath("library.jsonl").read_text("utf-8").splitlines()]
    labels = {row["id"]: row["metadata"] for row in rows}
    for planted in json.loads(files("sample").joinpath("planted.json").read_text("utf-8"))[: JUDGED if is_asked else 2]:
        for view in planted["views"]:
            for hit in sample_server.search(planted["query"], collection="sample", instruction=view["instruction"])[
                "hits"
            ]:
                identifier = hit["document"]["uri"].rpartition("/")[2]
                is_right = labels.get(identifier, {}).get(view["aspect"]) == view["label"]
                judgement = {
                    "document_id": hit["document"]["id"],
                    "query": planted["query"],
                    "instruction": view["instruction"],
                    "grade": 3 if is_right else 0,
                }
                assert sample_server.ask("/api/v1/judgements", judgement).status == 200
    return sample_server


@pytest.fixture
def judged_server_with_saved_searches(judged_server: Server) -> Iterator[Server]:
    """The first of two saved searches is watched. Other tests get the server without them."""
    saved = {
        "Navies of islands": {"query": QUERY, "instruction": PLACE, "collection": "sample"},
        "Central banks": {"query": "a central bank raised interest rates", "collection": "sample"},
    }
    answers = [
        judged_server.ask("/api/v1/saved-searches", {"name": name, "request": request})
        for name, request in saved.items()
    ]
    watched, _ = addresses = [f"/api/v1/saved-searches/{answer.body['id']}" for answer in answers]
    assert judged_server.ask(f"{watched}/watch", {}, method="PUT").status == 200
    yield judged_server
    for address_of_saved in addresses:
        judged_server.ask(address_of_saved, method="DELETE")


@pytest.mark.parametrize("look", ["light", "dark"])
@pytest.mark.parametrize("size", [pytest.param(PICTURE, id="desktop"), pytest.param(PHONE, id="phone")])
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each == SHOWN_BY_DEFAULT else pytest.mark.long) for each in PAGES]
)
def test_page_shows_its_main_parts(
    window: BrowserContext,
    judged_server_with_saved_searches: Server,
    name: str,
    size: ViewportSize,
    look: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    is_asked = request.config.getoption("--screenshots")
    if not is_asked and (size is PHONE or look == "dark"):
        pytest.skip("test_accessibility looks at the others; with --screenshots they are taken, too")
    folder = IMAGES if is_asked else tmp_path
    with opened_page(window, judged_server_with_saved_searches.url, size=size, is_dark=look == "dark") as opened:
        PAGES[name](opened)
        opened.wait_until_still()
        opened.page.evaluate("document.activeElement?.blur()")
        if size is PICTURE:
            taken = opened.page.screenshot(path=folder / f"{name}-{look}.png")
        elif name == "search":
            taken = opened.page.screenshot(path=folder / f"{name}-phone-{look}.png")
        else:
            taken = opened.page.screenshot()
        assert taken.startswith(b"\x89PNG")
        assert opened.overflows() == []
