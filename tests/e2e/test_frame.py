"""What all pages have in common: colours that stay, a start that loses nothing, and a policy that browsers follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from browser import DESKTOP, ON_PHONE, WATCH_SHIFTS, OpenPage
from page_application import LETTERS, RECIPES, PageApplication
from playwright.sync_api import Browser, Route, ViewportSize, expect
from served import in_thread

Open = Callable[..., OpenPage]


class Elsewhere(ThreadingHTTPServer):
    """Another server, which remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Remembering)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Remembering(BaseHTTPRequestHandler):
    server: Elsewhere

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("content-type", "text/plain")
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    server = Elsewhere()
    with in_thread(server):
        yield server


def test_colours_that_were_chosen_stay_on_every_page(open_page: Open) -> None:
    opened = open_page(size=DESKTOP, is_dark=False)
    page = opened.page
    switch = page.get_by_role("button", name="Dark colours")
    expect(switch).to_have_attribute("aria-pressed", "false")
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "true")
    opened.go("/documents")
    expect(page.locator("body.dark")).to_have_count(1)
    expect(switch).to_have_attribute("aria-pressed", "true")
    switch.click()
    opened.go("/")
    expect(page.locator("body.dark")).to_have_count(0)


@pytest.mark.parametrize("key", ["Tab", "Shift+Tab"])
def test_a_list_of_choices_closes_when_the_keyboard_leaves_it(open_page: Open, key: str) -> None:
    opened = open_page(f"/?c={LETTERS}")
    page, choices = opened.page, opened.page.get_by_role("option")
    opened.wait_until_still()
    for field in ("#collection input", "#lens input"):
        page.locator(field).focus()
        expect(choices.first).to_be_visible()
        page.keyboard.press(key)
    page.locator("#query textarea").focus()
    expect(choices).to_have_count(0)


def test_the_title_follows_the_search(open_page: Open) -> None:
    opened = open_page(f"/?c={LETTERS}")
    expect(opened.page).to_have_title("Search · gircse-search")
    opened.search("kettle")
    expect(opened.page).to_have_title("kettle · Search · gircse-search")


def test_documents_lead_to_a_search_of_their_collection(open_page: Open) -> None:
    opened = open_page(f"/documents?c={RECIPES}")
    opened.follow(opened.page.get_by_role("link", name="Search this collection"))
    expect(opened.page.locator("#collection input")).to_have_value(RECIPES)


def test_an_address_without_a_page_leads_to_the_search(chromium: Browser, page_application: PageApplication) -> None:
    with chromium.new_context(locale="de-DE") as context:
        page = context.new_page()
        answer = page.goto(f"{page_application.url}/no-such-page")
        assert answer is not None
        assert answer.status == 404
        expect(page.get_by_role("heading")).to_have_text("Unter dieser Adresse gibt es keine Seite")
        page.get_by_role("link", name="Zur Suche").click()
        expect(page.get_by_label("Suchen nach")).to_be_visible()
    problem = page_application.server.ask("/no-such-page")
    assert (problem.status, problem.body["title"]) == (404, "Not Found")


@ON_PHONE
def test_nothing_jumps_when_a_page_opens(open_page: Open, size: ViewportSize) -> None:
    opened = open_page(size=size)
    opened.page.add_init_script(WATCH_SHIFTS)
    for path in ("/", f"/?q=kettle&c={LETTERS}", "/compare", "/documents", "/saved", "/evaluate", "/about"):
        opened.go(path)
        opened.page.wait_for_function("!document.documentElement.classList.contains('is-opening')")
        opened.wait_until_still()
        opened.judge_shifts()


def test_what_was_typed_before_the_page_was_ready_stays(open_page: Open) -> None:
    opened = open_page()
    page = opened.page
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/queue/join*", hold_the_first)
    opened.go("/")
    query = page.get_by_label("Search for")
    query.fill("I am angry about the ferry")
    page.wait_for_timeout(500)
    held[0].continue_()
    opened.wait_until_still()
    expect(query).to_have_value("I am angry about the ferry")
    expect(page.locator(".welcome")).to_be_visible()  # it may be half of a query: nobody pressed Enter yet
    assert "q=" not in page.url


def test_an_answer_is_not_lost_when_it_is_asked_for_as_the_stream_ends(open_page: Open) -> None:
    """Gradio's server ends the stream of answers when none is outstanding, and its client may have asked by then."""
    opened = open_page("/evaluate")
    page, held = opened.page, list[Route]()
    expect(page.get_by_role("button", name="Evaluate", exact=True)).to_be_enabled()
    page.get_by_role("button", name="Import judgements from files").click()
    opened.wait_until_still()
    page.route("**/queue/data?*", lambda route: held.append(route), times=1)
    page.get_by_label("Judged queries of the collection").click()
    with page.expect_response("**/queue/join*"):
        page.get_by_role("option", name=RECIPES).click()
    while not held:  # the stream is asked for once it is known what to wait for
        page.wait_for_timeout(20)
    ended = held[0].fetch()  # whole, with its end
    with page.expect_response("**/queue/join*"):
        page.get_by_role("button", name="Import", exact=True).click()
    held[0].fulfill(response=ended)
    expect(page.locator("#evaluate-message").get_by_role("alert")).to_be_visible()


def test_a_browser_fetches_nothing_elsewhere_even_for_markup_that_got_in(
    chromium: Browser, page_application: PageApplication, elsewhere: Elsewhere
) -> None:
    smuggled = (
        "<img src={url}/image>",
        "<svg><image href={url}/svg></image></svg>",
        "<iframe src={url}/frame></iframe>",
        "<object data={url}/object></object>",
        "<link rel=stylesheet href={url}/style>",
        "<style>body {{ background: url({url}/background) }} @import url({url}/import);</style>",
        "<video src={url}/video autoplay></video>",
        "<img src=x onerror=\"fetch('{url}/fetch').catch(() => 0)\">",
        "<img src=x onerror=\"import('{url}/js').catch(() => 0)\">",
        '<form action={url}/form><button id=go></button></form><img src=x onerror="document.forms[0].submit()">',
    )
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(page_application.url)
        page.locator(".site-footer").wait_for()
        for each in smuggled:
            html = each.format(url=elsewhere.url)
            page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", html)
            page.wait_for_timeout(200)
        page.wait_for_timeout(500)
    assert elsewhere.asked == []


def test_no_other_site_may_frame_a_page(
    chromium: Browser, page_application: PageApplication, elsewhere: Elsewhere
) -> None:
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(elsewhere.url)
        page.evaluate(
            "url => document.body.append(Object.assign(document.createElement('iframe'), {src: url}))",
            page_application.url,
        )
        page.wait_for_timeout(1500)
        assert [frame.url for frame in page.frames[1:]] == ["chrome-error://chromewebdata/"]


def test_the_other_server_would_have_noticed(chromium: Browser, elsewhere: Elsewhere) -> None:
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(elsewhere.url + "/page")
        page.evaluate("document.body.innerHTML = '<img src=/image>'")
        page.wait_for_timeout(500)
    assert "/image" in elsewhere.asked


def test_pages_speak_the_language_of_the_browser_or_of_the_switch(
    chromium: Browser, page_application: PageApplication, axe: Callable[[OpenPage], None]
) -> None:
    url, places = page_application.url, {"accept-language": "de-DE,de;q=0.9,en;q=0.5"}
    with chromium.new_context(extra_http_headers=places) as context:
        opened = OpenPage(context.new_page(), url)
        page = opened.go("/?q=kettle")
        expect(page.locator("html")).to_have_attribute("lang", "de")
        expect(page.get_by_role("button", name="Suchen", exact=True)).to_be_visible()
        expect(page.get_by_role("link", name="Dokumente", exact=True)).to_be_visible()
        expect(page.locator(".summary")).to_contain_text("ohne Anweisung")
        axe(opened)

        opened.follow(page.get_by_role("button", name="English", exact=True))
        expect(page.locator("html")).to_have_attribute("lang", "en")
        expect(page.get_by_role("button", name="Search", exact=True)).to_be_visible()
        opened.follow(page.get_by_role("button", name="Deutsch", exact=True))
        expect(page.get_by_role("button", name="Suchen", exact=True)).to_be_visible()
        assert not opened.complaints
    with chromium.new_context(extra_http_headers={"accept-language": "fr"}) as context:
        page = OpenPage(context.new_page(), url).go("/")
        expect(page.locator("html")).to_have_attribute("lang", "en")
        expect(page.get_by_role("button", name="Search", exact=True)).to_be_visible()
