"""Every page over documents, names, addresses and words that want to run scripts, fetch something, or break the layout.

After each step a page is judged at both widths: nothing ran or was fetched, nothing smuggled in, nothing cut off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlencode

import pytest
from browser import DESKTOP, PHONE, OpenPage, opened_page
from hostile import ATTACKS, FETCHES, HOSTILE, LAYOUT, LINKS, LONG_WORD, SCRIPTS
from page_application import LETTERS, PageApplication
from playwright.sync_api import BrowserContext, expect

pytestmark = pytest.mark.timeout(900)  # the first test waits for the hostile corpus

# What none of our HTML ever holds, and links that lead anywhere but to this server or the web.
_NEXT_FRAME = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
_SMUGGLED = """() => {
  const ours = [...document.querySelectorAll('.html-container, dialog')];
  const all = (selector) => ours.flatMap((each) => [...each.querySelectorAll(selector)]);
  const elements = all('script, iframe, object, embed, base, meta, link, form, img, video, math, image, use');
  const handlers = all('*').filter((each) => [...each.attributes].some((one) => one.name.startsWith('on')));
  const styles = all('style').filter((each) => /attacker/.test(each.textContent));
  const links = [...document.querySelectorAll('a[href]')].filter((each) => !/^https?:$/.test(each.protocol));
  return [...elements, ...handlers, ...styles, ...links].map((each) => each.outerHTML.slice(0, 200));
}"""

Open = Callable[[str], OpenPage]
KINDS = (SCRIPTS, LINKS, FETCHES, LAYOUT, [LONG_WORD])


def of_kinds(*kinds: list[str]) -> pytest.MarkDecorator:
    """Of these by default, of all with --long."""
    return pytest.mark.parametrize(
        "attacks",
        [pytest.param(each, id=each[0][:12], marks=() if each in kinds else pytest.mark.long) for each in KINDS],
    )


@pytest.fixture
def open_hostile(window: BrowserContext, hostile_application: PageApplication) -> Iterator[Open]:
    before = hostile_application.incidents()
    with ExitStack() as opened:

        def open_at(path: str) -> OpenPage:
            page = opened.enter_context(opened_page(window, hostile_application.url))
            page.go(path)
            return page

        yield open_at
    assert hostile_application.incidents() == before


def judge(opened: OpenPage) -> None:
    opened.wait_until_still()
    assert [frame.evaluate("window.attacked ?? null") for frame in opened.page.frames] == [None]
    assert opened.page.evaluate(_SMUGGLED) == []
    for size in (PHONE, DESKTOP):
        opened.page.set_viewport_size(size)
        opened.page.evaluate(_NEXT_FRAME)  # until then some of it is laid out for the former size
        assert "\n".join(opened.overflows()) == "", size
    assert opened.faults() == []


def address(path: str, **parameters: object) -> str:
    return f"{path}?{urlencode({name: str(value) for name, value in parameters.items()})}"


@pytest.mark.parametrize(("mode", "shown"), [pytest.param("dense", 50, marks=pytest.mark.long), ("hybrid", 20)])
def test_passages(open_hostile: Open, mode: str, shown: int) -> None:
    opened = open_hostile(address("/", q="angry ferry", c=HOSTILE, n=shown, k=3, m=mode))
    expect(opened.page.locator(".hit")).to_have_count(shown)
    judge(opened)
    opened.page.evaluate("document.querySelectorAll('#content details').forEach((each) => { each.open = true })")
    judge(opened)


@pytest.mark.parametrize("most", [2, pytest.param(10, marks=pytest.mark.long)])
def test_documents_that_are_opened(open_hostile: Open, most: int) -> None:
    opened = open_hostile(address("/", q="angry ferry", c=HOSTILE, n=most, k=1, m="sparse"))
    page, dialog = opened.page, opened.page.locator("#document-view dialog[open]")
    expect(page.locator(".hit")).to_have_count(most)
    for place in range(most):
        page.locator(".hit .open").nth(place).click()
        expect(dialog).to_be_visible()
        judge(opened)
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)


@pytest.mark.long
def test_choices_that_are_made_of_hostile_metadata(open_hostile: Open) -> None:
    opened = open_hostile(address("/", q="angry ferry", c=HOSTILE, n=5, k=1))
    for selector in (".thumbs button", ".hit-actions button", ".chips button"):
        # A field with double quotes or backslashes is refused, whatever else it is.
        opened.page.locator(selector).filter(has_not_text=re.compile(r'["\\]')).first.click()
        judge(opened)
    expect(opened.page.locator(".chosen li").first).to_be_visible()


@of_kinds(SCRIPTS)
def test_hostile_addresses(open_hostile: Open, attacks: list[str]) -> None:
    whole = " ".join(attacks)
    titled = {f"passage {place}": each[:900] for place, each in enumerate(attacks)}
    # A field with double quotes or backslashes is refused, whatever else it is.
    filters = {each[:900].replace('"', "'").replace("\\", "/"): each[:900] for each in attacks}
    choices = {"bias": {"ferry": 5}, "filters": filters}
    opened = open_hostile(
        address("/", q=whole[:9000], i=whole[:1900], c=HOSTILE, n=3, k=1, m="sparse", x=json.dumps(choices))
    )
    expect(opened.page.locator("#passages .chosen li").first).to_be_visible()
    judge(opened)
    opened.go(address("/", q="ferry", c=HOSTILE, k=1, x=json.dumps({"like": titled, "unlike": titled})))
    expect(opened.page.locator("#passages [role=alert]")).to_be_visible()
    judge(opened)
    first = attacks[0][:5000]
    opened.go(address("/", q="ferry", c=first, k=first, n=first, m=first, x=first, nothing=first))
    expect(opened.page.locator("#passages [role=alert]")).to_be_visible()
    judge(opened)


@pytest.mark.parametrize(
    "words", [("<",), pytest.param(("</script>", '"', "script", "html", "&", "${1}"), marks=pytest.mark.long)]
)
def test_words_that_the_model_is_pushed_to_say(open_hostile: Open, words: tuple[str, ...]) -> None:
    opened = open_hostile("/")
    for word in words:
        opened.go(address("/", q="ferry", c=LETTERS, n=1, k=6, x=json.dumps({"bias": {word: 10}})))
        expect(opened.page.locator("#passages .hit, #passages [role=alert]").first).to_be_visible()
        judge(opened)


@pytest.mark.parametrize("places", [(4,), pytest.param((1, 2, 3, 4, 5), marks=pytest.mark.long)])
def test_lenses_with_hostile_names(open_hostile: Open, places: tuple[int, ...]) -> None:
    opened = open_hostile("/")
    page, lens = opened.page, opened.page.get_by_label("Lens", exact=True)
    opened.wait_until_still()
    for place in places:
        lens.click()
        judge(opened)
        page.get_by_role("option").nth(place).click()
        judge(opened)
    page.get_by_text("Settings").click()
    page.get_by_label("Save as a lens").fill(SCRIPTS[0])
    page.get_by_role("button", name="Save lens").click()
    expect(lens).to_have_value(SCRIPTS[0])
    judge(opened)


@of_kinds([LONG_WORD])
def test_compare_page(open_hostile: Open, attacks: list[str]) -> None:
    whole, first = " ".join(attacks)[:1900], attacks[0][:5000]
    sides = {"c1": HOSTILE, "c2": HOSTILE, "k1": 1, "k2": 2, "m2": "hybrid", "x1": json.dumps({"bias": {"script": 10}})}
    opened = open_hostile(address("/compare", q=f"ferry {whole}", i1=whole, i2="-", **sides))
    expect(opened.page.locator("#comparison").get_by_role("listitem").first).to_be_visible()
    judge(opened)
    for name in ("c1", "x1"):
        opened.go(address("/compare", **{"q": "ferry", **sides, "k1": first, "m1": first, name: first}))
        expect(opened.page.get_by_role("alert").first).to_be_visible()
        judge(opened)


def test_documents_page(open_hostile: Open) -> None:
    opened = open_hostile(address("/documents", c=HOSTILE))
    expect(opened.page.get_by_text("window.attacked").first).to_be_visible()
    judge(opened)
    opened.go(address("/documents", c=ATTACKS[0], q=ATTACKS[0], state=ATTACKS[0]))
    judge(opened)


@pytest.mark.long
def test_evaluate_page(open_hostile: Open, hostile_application: PageApplication) -> None:
    for document in hostile_application.server.ask(f"/api/v1/documents?collection={HOSTILE}&limit=20").body:
        judgement = {"document_id": document["id"], "query": ATTACKS[0], "instruction": ATTACKS[1], "grade": 2}
        assert hostile_application.server.ask("/api/v1/judgements", judgement).status == 200
    opened = open_hostile(address("/evaluate", c=HOSTILE, run=ATTACKS[0]))
    page = opened.page
    opened.wait_until_still()
    page.get_by_label("Judged queries of the collection").click()
    page.get_by_role("option", name=HOSTILE).click()
    judge(opened)
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator("#evaluate-report").get_by_role("table").first).to_be_visible()
    judge(opened)
    page.evaluate("document.querySelectorAll('#content details').forEach((each) => { each.open = true })")
    judge(opened)


def test_about_page(open_hostile: Open) -> None:
    opened = open_hostile(address("/about", c=ATTACKS[0], q=ATTACKS[0]))
    expect(opened.page.locator("#health").get_by_text("documents and settings").first).to_be_visible()
    judge(opened)
