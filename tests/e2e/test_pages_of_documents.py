"""Documents as people see them, in a real Chromium: scans and PDFs with their passage marked, tables with their row."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import pytest
from browser import DESKTOP, IN_THE_LIGHT, PHONE, OpenPage
from page_application import PageApplication
from patience import PATIENCE_S
from playwright.sync_api import Page, ViewportSize, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError
from reportlab.pdfgen.canvas import Canvas

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from scan_samples import picture, scanned_pdf

Open = Callable[..., OpenPage]
Axe = Callable[[OpenPage], None]
SCANS = "scans"
READABLE_PX = 11  # of a line's words
TEXT = "The lighthouse keeper writes down every ship that passes in the night."
TABLE = "Berth,Boat,Length\n" + "".join(f"{n},Boat {chr(65 + n)},{10 + n} metres\n" for n in range(20))

_IS_WIDER = "(width) => document.querySelector('.page-sheet').getBoundingClientRect().width > width"

_SHOWS = "(place) => document.querySelector('[data-page-place]').textContent === place"

# Whether each of the marked words of the page, as the API places them, lies in a rectangle that is drawn.
_UNCOVERED = """async () => {
  const view = document.querySelector('[data-page-view]');
  const sheet = view.querySelector('.page-sheet').getBoundingClientRect();
  const { document: id, page, start, end } = view.dataset;
  const answer = await (await fetch(`/api/v1/documents/${id}/pages/${page}?start=${start}&end=${end}`)).json();
  const marks = [...view.querySelectorAll('.page-mark')].map((each) => each.getBoundingClientRect());
  const words = answer.words.filter((each) => each.is_marked);
  const isCovered = (word) => {
    const x = sheet.left + sheet.width * (word.left + word.right) / 2;
    const y = sheet.top + sheet.height * (word.top + word.bottom) / 2;
    return marks.some((mark) => mark.left <= x && x <= mark.right && mark.top <= y && y <= mark.bottom);
  };
  const texts = (some) => some.map((each) => each.text);
  return { marked: texts(words), uncovered: texts(words.filter((each) => !isCovered(each))) };
}"""


@pytest.fixture(scope="module")
def scans(page_application: PageApplication) -> PageApplication:
    application = page_application
    application.server.ask("/api/v1/collections", {"name": SCANS})
    application.add_file(SCANS, "scan.pdf", scanned_pdf(TEXT, picture()), "application/pdf")
    application.add_file(SCANS, "berths.csv", TABLE.encode(), "text/csv")
    application.wait_until_read(SCANS)
    return application


def page_of_lines(lines: list[str]) -> bytes:
    written = io.BytesIO()
    canvas = Canvas(written, pagesize=(595, 842), invariant=True)
    for number, line in enumerate(lines):
        canvas.drawString(60, 780 - 20 * number, line)
    canvas.save()
    return written.getvalue()


def opened_hit(opened: OpenPage, query: str) -> Page:
    opened.go("/?" + urlencode({"q": query, "c": SCANS, "k": 1}))
    expect(opened.page.locator(".hit .open").first).to_be_visible()
    opened.wait_until_still()
    opened.page.locator(".hit .open").first.click()
    expect(opened.page.locator("#document-view dialog[open]")).to_be_visible()
    return opened.page


PRESS_AGAIN_S = 5


def press(page: Page, key: str, until: str, argument: object) -> None:
    """On a busy machine a press is lost now and then, it is not known why; people press again, too."""
    for _ in range(int(PATIENCE_S / PRESS_AGAIN_S)):
        page.keyboard.press(key)
        with suppress(PlaywrightTimeoutError):
            page.wait_for_function(until, arg=argument, timeout=1_000 * PRESS_AGAIN_S)
            return
    raise AssertionError(f"{key!r} does nothing.")


@IN_THE_LIGHT
@pytest.mark.usefixtures("scans")
def test_a_hit_in_a_scan_opens_the_page_with_its_words_marked(
    open_page: Open, axe: Axe, size: ViewportSize, is_dark: bool
) -> None:
    opened = open_page(size=size, is_dark=is_dark)
    page = opened_hit(opened, "Who counts the boats at dawn?")
    sheet, marks = page.locator(".page-sheet"), page.locator(".page-mark")
    expect(marks.first).to_be_visible()
    expect(page.locator("[data-page-place]")).to_have_text("Page 2 of 2")
    found = page.evaluate(_UNCOVERED)
    assert found["marked"][:4] == ["The", "harbour", "master", "counts"]
    assert found["uncovered"] == []
    expect(sheet.locator("img")).to_have_js_property("complete", True)
    assert sheet.locator("img").evaluate("(each) => each.naturalWidth") > 100
    axe(opened)
    assert opened.overflows() == []

    before = sheet.bounding_box()
    assert before
    page.evaluate("document.activeElement.blur()")  # as when the page draws the dialog anew
    press(page, "+", _IS_WIDER, 1.3 * before["width"])
    assert page.evaluate(_UNCOVERED)["uncovered"] == []
    page.get_by_role("button", name="Fit").click()
    page.locator("[data-page-view]").focus()

    press(page, "ArrowLeft", _SHOWS, "Page 1 of 2")
    expect(page.locator(".page-words span").first).to_have_text("The ")
    page.keyboard.press("t")
    expect(page.locator("#passage")).to_be_visible()
    expect(page.locator("[data-page-view]")).to_be_hidden()
    assert opened.overflows() == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_scan_opens_at_the_sentence_in_a_readable_size(
    open_page: Open, page_application: PageApplication, size: ViewportSize
) -> None:
    lines = [f"Crates of oranges number {number} stood in the hall." for number in range(36)]
    lines[30] = "The harbour master counts the boats at dawn."
    page_application.server.ask("/api/v1/collections", {"name": "long-scans"})
    page_application.add_file("long-scans", "long.pdf", page_of_lines(lines), "application/pdf")
    page_application.wait_until_read("long-scans")
    opened = open_page("/?" + urlencode({"q": "Who counts the boats at dawn?", "c": "long-scans", "k": 1}), size=size)
    opened.wait_until_still()
    opened.page.locator(".hit .open").first.click()
    sentence = opened.page.locator(".page-sentence")
    expect(sentence.first).to_be_in_viewport(ratio=0.9)
    box = sentence.first.bounding_box()
    assert box
    assert box["height"] >= READABLE_PX
    assert box["x"] + box["width"] <= size["width"]  # a line is read without moving the page
    opened.wait_until_still()
    assert opened.overflows() == []


@pytest.mark.usefixtures("scans")
def test_words_of_a_page_can_be_selected_where_they_are_seen(open_page: Open) -> None:
    """With a mouse: on a phone the browser has its own way, a long press."""
    opened = open_page()
    page = opened_hit(opened, "Who writes down the ships of the night?")
    expect(page.locator(".page-mark").first).to_be_visible()
    opened.wait_until_still()
    words = page.locator(".page-words span")
    first, last = words.filter(has_text="lighthouse"), words.filter(has_text="writes")
    begin, end = first.bounding_box(), last.bounding_box()
    sheet = page.locator(".page-sheet").bounding_box()
    assert begin
    assert end
    assert sheet
    # It stands 40 of 400 points from the left, after one short word, and 100 of 300 from the top.
    assert 40 / 400 < (begin["x"] - sheet["x"]) / sheet["width"] < 80 / 400
    assert abs((begin["y"] + begin["height"] / 2 - sheet["y"]) / sheet["height"] - 96 / 300) < 0.03
    page.mouse.move(begin["x"] + 1, begin["y"] + begin["height"] / 2)
    page.mouse.down()
    page.mouse.move(end["x"] + 0.8 * end["width"], end["y"] + end["height"] / 2, steps=5)
    page.mouse.up()
    assert " ".join(page.evaluate("getSelection().toString()").split()).startswith("lighthouse keeper writ")


@pytest.mark.usefixtures("scans")
def test_hits_are_walked_through_in_the_dialog_and_rows_are_marked_in_their_table(open_page: Open, axe: Axe) -> None:
    opened = open_page()
    page = opened_hit(opened, "Boat H of eighteen metres")
    row = page.locator("tr.is-passage")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("metres")
    expect(page.locator(".text-table th")).to_have_text(["Berth", "Boat", "Length"])
    expect(page.locator("[data-hit-place]")).to_contain_text("Hit 1 of ")
    axe(opened)
    page.keyboard.press("n")
    expect(page.locator("[data-hit-place]")).to_contain_text("Hit 2 of ")
    page.keyboard.press("p")
    expect(page.locator("[data-hit-place]")).to_contain_text("Hit 1 of ")


@pytest.mark.usefixtures("scans")
def test_pictures_of_pages_are_shown_beside_hits_for_who_wants_them(open_page: Open) -> None:
    opened = open_page()
    opened.go("/?" + urlencode({"q": "Who counts the boats at dawn?", "c": SCANS, "k": 1}))
    expect(opened.page.locator(".hit .open").first).to_be_visible()
    opened.wait_until_still()
    assert opened.page.locator(".thumbnail").count() == 0
    switch = opened.page.get_by_role("button", name="Pictures of pages")
    switch.click()
    expect(opened.page.locator(".thumbnail").first).to_be_visible()
    expect(opened.page.locator(".thumbnail").first).to_have_js_property("complete", True)
    assert opened.page.locator(".thumbnail").first.evaluate("(each) => each.naturalWidth") == 160
    switch.click()
    expect(opened.page.locator(".thumbnail").first).to_be_hidden()
