"""The search page in a real Chromium over a real service: what it shows is what the REST API answers."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from browser import IN_THE_DARK, ON_DESKTOP, ON_PHONE, PHONE, OpenPage
from page_application import LETTERS, PDF_PAGES, PDF_TITLE, RECIPES, TEXTS, PageApplication
from playwright.sync_api import Locator, Page, Route, ViewportSize, expect

from app.types.search import ALL_COLLECTIONS
from ui.language import COOKIE

pytestmark = pytest.mark.xdist_group("pages")

Open = Callable[..., OpenPage]
Axe = Callable[[OpenPage], None]
QUERY = "I am angry about the ferry"
STEPS = 5
FEELING = "Represent the emotion of this text."


def address(query: str = QUERY, **values: object) -> str:
    return "/?" + urlencode({"q": query, "c": LETTERS, "k": STEPS, **values})


def ask(application: PageApplication, **question: Any) -> dict[str, Any]:
    """As the page does; hits of one document stand together there."""
    asked = {"query": QUERY, "collection": LETTERS, "steps": STEPS, "per_document": 3, **question}
    answer = application.server.ask("/api/v1/search", asked)
    assert answer.status == 200, answer
    groups: dict[str, list[Any]] = {}
    for hit in answer.body["hits"]:
        groups.setdefault(hit["document"]["id"], []).append(hit)
    return {**answer.body, "hits": [hit for group in groups.values() for hit in group]}


def shown(page: Page) -> list[tuple[str, str]]:
    """Titles and scores, from the top."""
    hits = page.locator(".hit")  # also those below another one, which can be unfolded
    return [
        (
            hit.locator("h3").first.text_content() or "",
            hit.locator(".hit-score p b, .hit-score > span").first.text_content() or "",
        )
        for hit in hits.all()
    ]


def answered(answer: dict[str, Any]) -> list[tuple[str, str]]:
    digits = 1 if answer["mode"] == "sparse" else 3
    return [(hit["document"]["title"], f"{hit['score']:.{digits}f}") for hit in answer["hits"]]


def steps_shown(page: Page) -> list[str]:
    page.get_by_role("button", name="Details").click()
    page.get_by_text("Every step").click()
    return page.locator("table.steps tbody tr").all_inner_texts()


def complete(opened: OpenPage) -> Page:
    """The page, once the last of the three answers to a search is there."""
    expect(opened.page.locator("#passages .hit").first).to_be_visible()
    expect(opened.page.locator("#passages mark").first).to_be_visible()
    opened.wait_until_still()
    return opened.page


@ON_PHONE
def test_a_query_finds_and_another_lens_reads_it_in_another_sense(
    open_page: Open, page_application: PageApplication, size: ViewportSize
) -> None:
    opened = open_page(address(i="-"), size=size)
    page = complete(opened)
    assert shown(page) == answered(ask(page_application, instruction=""))
    expect(page.locator("#lens input")).to_have_value("No lens")
    expect(page.locator(".summary")).to_contain_text("without an instruction")

    page.locator("#lens input").click()
    page.get_by_role("option", name="Same feeling").click()
    expect(page.locator(".summary")).to_contain_text(FEELING)
    complete(opened)
    values = page_application.server.ask("/api/v1/lenses/Same%20feeling").body["values"]
    assert shown(page) == answered(ask(page_application, instruction=FEELING, values=values))
    expect(page.get_by_label("Instruction")).to_have_value(FEELING)
    expect(page.locator("#values textarea")).to_have_value("; ".join(values))
    assert opened.overflows() == []


@ON_DESKTOP
def test_the_address_holds_the_search_and_back_undoes(
    open_page: Open, page_application: PageApplication, size: ViewportSize
) -> None:
    opened = open_page(f"/?c={LETTERS}", size=size)
    opened.search(QUERY)
    first = opened.page.url
    assert parse_qs(urlsplit(first).query)["q"] == [QUERY]
    before = shown(opened.page)

    opened.search("delighted with my new kettle")
    assert opened.page.url != first
    with opened.loading_again():
        opened.page.go_back()
        page = complete(opened)
    expect(page.get_by_label("Search for")).to_have_value(QUERY)
    assert shown(page) == before

    shared = open_page(first.removeprefix(page_application.url), size=size)
    assert shown(complete(shared)) == before


@ON_PHONE
def test_a_search_is_saved_found_in_the_history_and_asked_again(open_page: Open, axe: Axe, size: ViewportSize) -> None:
    opened = open_page(address(i="-", m="dense"), size=size)
    page = complete(opened)
    before = shown(page)
    name = page.get_by_label("Save this search")
    name.fill("Ferries")
    name.press("Enter")
    expect(page.locator("#saving-message")).to_contain_text("Saved as “Ferries”")
    page.locator(".site-header nav").get_by_role("link", name="Saved").click()
    past = page.locator("#search-history li", has_text="by meaning")
    expect(past.get_by_role("link", name=QUERY)).to_be_visible()
    axe(opened)
    assert opened.overflows() == []
    page.get_by_role("button", name="Watch Ferries").click()
    standing = page.locator("#saved-searches .standing")
    standing.locator("summary").press("Enter")
    page.get_by_label("Notify about").select_option("strong")
    page.get_by_label("Webhook").fill("https://example.org/hook")
    page.get_by_role("button", name="Save the alert settings of Ferries").press("Enter")
    expect(page.locator("#saved-message")).to_contain_text("Alert saved")
    expect(standing.get_by_text("signed with this secret: whsec_")).to_be_visible()  # it stays open
    expect(page.get_by_label("Notify about")).to_have_value("strong")
    axe(opened)
    assert opened.overflows() == []
    page.locator("#saved-searches").get_by_role("link", name="Ferries").click()
    assert shown(complete(opened)) == before
    assert parse_qs(urlsplit(page.url).query)["m"] == ["dense"]
    with opened.loading_again():
        page.go_back()
        expect(past).to_have_count(1)
    feed = page.get_by_label("Feed (Atom)")
    expect(feed).to_have_value(re.compile(rf"^{re.escape(opened.url)}/feeds/.+\.atom$"))
    expect(page.get_by_label("Rename Ferries")).to_be_visible()  # only then it can have the focus
    page.get_by_label("Rename Ferries").press("Enter")
    page.get_by_label("New name of Ferries", exact=True).fill("Ships & boats")
    axe(opened)
    assert opened.overflows() == []
    page.get_by_label("New name of Ferries", exact=True).press("Enter")
    expect(page.locator("#saved-message")).to_contain_text("The search is now named “Ships & boats”")
    expect(page.locator("#saved-searches").get_by_role("link", name="Ships & boats")).to_be_visible()
    past.get_by_role("button", name="Remove").click()
    expect(past).to_have_count(0)
    opened.accept_next_dialog()
    page.get_by_role("button", name="Delete Ships & boats").click()
    expect(page.locator("#saved-searches li")).to_have_count(0)


@ON_PHONE
def test_a_word_is_boosted_from_the_page_as_by_the_api_and_taken_back(
    open_page: Open, page_application: PageApplication, size: ViewportSize
) -> None:
    opened = open_page(address(i="-", k=20), size=size)
    page = complete(opened)
    plain = shown(page)
    word = page.locator("#reading .reading > .tokens .token").first
    text = word.locator(".word").inner_text().strip()
    word.locator(".word").press("Enter")
    word.get_by_role("button", name=f"Less {text}", exact=True).click()
    chip = page.locator(".chosen li", has_text=text)
    expect(chip).to_be_visible()
    complete(opened)
    expected = ask(page_application, instruction="", steps=20, token_bias={text: -10.0})
    assert shown(page) == answered(expected)
    rows = steps_shown(page)
    assert len(rows) == 20
    for row, step in zip(rows, expected["refinement"], strict=True):
        words = " ".join(f"{token['token']} {token['probability']:.3f}" for token in step["tokens"][:10])
        assert row.split() == [str(step["step"]), *words.split()]
    assert json.loads(parse_qs(urlsplit(page.url).query)["x"][0]) == {"bias": {text: -10.0}}

    chip.get_by_role("button").click()
    expect(page.locator(".chosen")).to_have_count(0)
    complete(opened)
    assert shown(page) == plain


def counts_shown(page: Page) -> list[list[str]]:
    """Name and count of every value, in their order."""
    return [each.inner_text().split("\n")[0].split() for each in page.locator(".values li button").all()]


@IN_THE_DARK
def test_values_are_counted_and_one_of_them_is_kept(
    open_page: Open, page_application: PageApplication, axe: Axe, size: ViewportSize, is_dark: bool
) -> None:
    values = ["anger = furious", "joy = delighted", "food"]
    opened = open_page(address(i=FEELING, v="; ".join(values)), size=size, is_dark=is_dark)
    page = complete(opened)
    answer = ask(page_application, instruction=FEELING, values=values)
    assert shown(page) == answered(answer)
    counts = [[each["name"].replace("other", "Other"), str(each["count"])] for each in answer["values"]["counts"]]
    assert [each[:2] for each in counts_shown(page)] == counts
    chips = page.locator(".hit .chips .value").all_text_contents()
    assert chips == [hit["value"]["name"].replace("other", "Other") for hit in answer["hits"]]
    kept = max(answer["values"]["counts"][:-1], key=lambda each: each["count"])
    assert 0 < kept["count"] < answer["values"]["passages"], "one value for all would not tell a filter from none"
    assert opened.overflows() == []
    axe(opened)

    page.locator(".values li button", has_text=kept["name"]).click()
    expect(page.locator(".chosen li", has_text=kept["name"])).to_be_visible()
    complete(opened)
    assert shown(page) == answered(ask(page_application, instruction=FEELING, values=values, value=kept["name"]))
    assert len(shown(page)) == kept["count"]
    assert json.loads(parse_qs(urlsplit(page.url).query)["x"][0]) == {"value": kept["name"]}
    page.locator(".values li button", has_text=kept["name"]).click()
    expect(page.locator(".chosen")).to_have_count(0)
    complete(opened)
    assert shown(page) == answered(answer)


@ON_DESKTOP
def test_typed_words_bring_proposals_and_one_of_them_fills_the_values(
    open_page: Open, page_application: PageApplication, axe: Axe, size: ViewportSize
) -> None:
    opened = open_page(address(i="-"), size=size)
    page = complete(opened)
    asked = "Which emotion does the writer feel?"
    page.get_by_label("Instruction").press_sequentially(asked)
    first = page.locator(".proposals button").first
    first.wait_for(timeout=180_000)  # the first call embeds the bank
    question = {"instruction": asked, "collection": LETTERS}
    proposed = page_application.server.ask("/api/v1/lenses/proposals", question).body["proposals"]
    expect(page.locator(".proposals button")).to_have_count(len(proposed))
    expect(first).to_contain_text(proposed[0]["values"][0].partition(" =")[0])
    expect(first).to_contain_text(f"{proposed[0]['fitting']} of {proposed[0]['texts']} sampled texts")
    assert opened.overflows() == []
    axe(opened)

    first.click()
    expect(page.locator("#values textarea")).to_have_value(re.compile(re.escape(proposed[0]["values"][0])))
    expect(page.locator(".values li button")).to_have_count(len(proposed[0]["values"]) + 1)
    complete(opened)
    assert shown(page) == answered(ask(page_application, instruction=asked, values=proposed[0]["values"]))
    expect(page.locator('.proposals [aria-pressed="true"]')).to_have_count(1)


def test_what_an_instruction_does_not_ask_for_is_left_out_and_said(
    open_page: Open, page_application: PageApplication
) -> None:
    part = "My sister practises the cello every evening."
    query, instruction = f"The night train to Vienna was late again. {part}", "Which musical instrument is played?"
    opened = open_page(address(query, i=instruction))
    page = complete(opened)
    answer = ask(page_application, query=query, instruction=instruction)
    assert answer["read_text"] == part
    assert shown(page) == answered(answer)
    expect(page.locator(".reading > .read-text")).to_have_text(f"The search uses only this part of the query: “{part}”")
    assert opened.overflows() == []

    opened = open_page(address(query, i="-"))
    complete(opened)
    expect(opened.page.locator(".reading")).to_be_visible()
    expect(opened.page.locator(".read-text")).to_have_count(0)


def test_a_skeleton_stands_there_from_enter_to_the_first_answer(open_page: Open) -> None:
    opened = open_page(f"/?c={LETTERS}")
    page, held = opened.page, list[Route]()
    opened.wait_until_still()
    expect(page.locator("#skeleton")).to_be_hidden()
    page.route("**/queue/join*", lambda route: held.append(route), times=1)
    page.get_by_label("Search for").fill(QUERY)
    page.get_by_label("Search for").press("Enter")
    expect(page.locator("#skeleton")).to_be_visible()
    expect(page.locator(".welcome")).to_be_hidden()
    for _ in range(500):  # the page draws before it asks
        if held:
            break
        page.wait_for_timeout(20)
    held[0].continue_()
    complete(opened)
    expect(page.locator("#skeleton")).to_be_hidden()


def test_values_that_cannot_be_told_apart_are_said_so(open_page: Open) -> None:
    opened = open_page(address(i=FEELING, v="joy, joy"))
    expect(opened.page.locator("#passages")).to_contain_text("'joy' is given twice")


def test_every_mode_gives_what_the_api_gives(open_page: Open, page_application: PageApplication) -> None:
    opened = open_page(address("ferry quay", i="-"))
    complete(opened)
    opened.page.get_by_role("button", name="Settings").click()
    for label, mode in (("Words", "sparse"), ("Meaning", "dense")):
        opened.page.locator("#mode").get_by_text(label, exact=True).click()
        opened.page.wait_for_function(f"location.search.includes('m={mode}')")
        page = complete(opened)
        assert shown(page) == answered(ask(page_application, query="ferry quay", instruction="", mode=mode))


def test_both_is_the_default_and_shows_where_each_leg_had_a_passage(
    open_page: Open, page_application: PageApplication
) -> None:
    page = complete(open_page(address("ferry quay", i="-")))
    answer = ask(page_application, query="ferry quay", instruction="")
    assert (answer["mode"], shown(page)) == ("hybrid", answered(answer))
    legs = page.locator(".hit .legs").first.locator("li").all_text_contents()
    assert len(legs) == len(answer["hits"][0]["legs"]) == 2  # without an instruction: meaning and words


def test_a_query_that_the_model_does_not_read_is_told_by_the_api_and_the_page(
    open_page: Open, page_application: PageApplication
) -> None:
    query = "船什么时候开?"
    (note,) = ask(page_application, query=query, instruction="")["notes"]
    advice = "The hits are ranked by meaning alone"  # no passage has one of the words
    assert note.startswith(f"This model reads English, and this looks like Chinese. {advice}")
    assert ask(page_application, query=query, instruction="", mode="sparse")["notes"] == []
    page = complete(open_page(address(query, i="-")))
    page.get_by_text("This model supports English, not Chinese.").click()
    expect(page.get_by_text(f"Your query looks like Chinese. {advice}")).to_be_visible()
    expect(page.locator("#reading .token")).to_have_count(0)  # what it thought of says nothing


@ON_PHONE
def test_metadata_narrows_down_and_says_how_many(open_page: Open, size: ViewportSize) -> None:
    opened = open_page(address(i="-"), size=size)
    page = complete(opened)
    if size["width"] < 800:  # beside the hits where there is room
        page.get_by_role("button", name="Narrow down").click()
    customers = page.locator("#facets li", has_text="a customer")
    expect(customers).to_contain_text("2")
    customers.get_by_role("button").click()
    expect(page.locator(".hit")).to_have_count(2)
    complete(opened)
    assert {title for title, _ in shown(page)} == {"Second repair", "A good present"}
    assert opened.overflows() == []
    page.locator(".chosen li", has_text="a customer").get_by_role("button").click()
    expect(page.locator(".hit")).to_have_count(len(TEXTS[LETTERS]) + len(PDF_PAGES))


def test_a_passage_that_is_liked_draws_others_after_it(open_page: Open, page_application: PageApplication) -> None:
    opened = open_page(address(i="-"))
    page = complete(opened)
    target = page.locator(".hit", has_text="A good present")
    liked = target.locator(".open").get_attribute("data-chunk")
    target.get_by_role("button", name="More like this").click()
    expect(page.locator(".chosen li", has_text="A good present")).to_be_visible()
    complete(opened)
    assert shown(page) == answered(ask(page_application, instruction="", like=[liked]))


def test_a_thumb_is_a_judgement_and_a_saved_lens_a_lens(open_page: Open, page_application: PageApplication) -> None:
    opened = open_page(address(i=FEELING))
    page = complete(opened)
    page.locator(".hit").first.get_by_role("button", name="Answers the query", exact=True).click()
    expect(page.locator("#message")).to_contain_text("Saved")
    expect(page.locator(".hit").first.locator('[aria-pressed="true"]')).to_have_count(1)
    judged = page_application.server.ask(f"/api/v1/judgements?collection={LETTERS}").body
    assert (QUERY, FEELING, 3) in [(each["query"], each["instruction"], each["grade"]) for each in judged]
    page.locator(".hit").first.get_by_role("button", name="Answers the query", exact=True).press("Enter")
    expect(page.locator("#message")).to_contain_text("was removed")
    expect(page.locator(".hit").first.locator('[aria-pressed="true"]')).to_have_count(0)
    assert len(page_application.server.ask(f"/api/v1/judgements?collection={LETTERS}").body) == len(judged) - 1

    page.get_by_label("Instruction").fill("Identify the vehicle.")
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Rank the first hits again").uncheck()
    page.wait_for_function("location.search.includes('r=0')")
    page.get_by_label("Save as a lens").fill("same vehicle")
    page.get_by_role("button", name="Save lens").click()
    expect(page.locator("#lens input")).to_have_value("same vehicle")
    lens = page_application.server.ask("/api/v1/lenses/same%20vehicle").body
    assert lens["query_instruction"] == "Identify the vehicle."


@pytest.mark.parametrize(("language", "label"), [("en", "Skip to hits"), ("de", "Zu den Treffern")])
@pytest.mark.parametrize(
    ("path", "hits"), [(address(i="-"), "#passages"), (f"/compare?q={QUERY}&c1={LETTERS}&c2={LETTERS}", "#comparison")]
)
def test_one_key_after_the_query_leads_past_the_fields_to_the_first_hit(
    open_page: Open, path: str, hits: str, language: str, label: str
) -> None:
    opened = open_page("/about")
    opened.page.context.add_cookies([{"name": COOKIE, "value": language, "url": opened.page.url}])
    try:
        page = opened.go(path)
        expect(page.locator(f"{hits} .open").first).to_be_visible()
        opened.wait_until_still()
        before = page.url
        skip = page.get_by_role("link", name=label, exact=True)
        expect(skip).not_to_be_in_viewport()
        page.locator("#query textarea").focus()
        page.keyboard.press("Tab")
        expect(skip).to_be_focused()
        expect(skip).to_be_in_viewport(ratio=1)
        page.keyboard.press("Enter")
        expect(page.locator(f"{hits} .open").first).to_be_focused()
        assert page.url == before
    finally:
        opened.page.context.clear_cookies(name=COOKIE)


def test_without_hits_the_link_leads_to_what_stands_in_their_place(open_page: Open) -> None:
    page = open_page("/").page
    expect(page.locator("#passages .welcome")).to_be_visible()
    page.locator("#query textarea").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#passages")).to_be_focused()


@ON_DESKTOP
def test_keys_alone_find_and_open_a_passage_at_its_page(open_page: Open, axe: Axe, size: ViewportSize) -> None:
    opened = open_page(address(PDF_PAGES[1], i="-"), size=size)
    page = complete(opened)
    expect(page.locator(".hit").first).to_contain_text(PDF_TITLE)
    page.locator("body").click(position={"x": 2, "y": 2})
    page.keyboard.press("ArrowDown")
    expect(page.locator(".hit .open").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".hit .open:visible").nth(1)).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("j")
    expect(page.locator(".hit .open:visible").nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("o")
    dialog = page.locator("dialog[open]")
    expect(dialog).to_contain_text(PDF_TITLE)
    expect(dialog.locator(".page-mark").first).to_be_in_viewport()
    expect(dialog.get_by_role("link").first).to_have_attribute("href", re.compile(r"/content#page=2$"))
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.keyboard.press("?")
    expect(page.locator("#keys[open]")).to_contain_text("to the query")
    axe(opened)
    page.keyboard.press("Escape")
    expect(page.locator("#keys[open]")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.get_by_label("Search for")).to_be_focused()


def test_results_are_exported_and_a_citation_is_copied(open_page: Open, page_application: PageApplication) -> None:
    chosen = json.dumps({"bias": {"ferry": -10.0}, "filters": {"from": "a reader"}})
    opened = open_page(address(i="-", x=chosen, n=3))
    page = complete(opened)
    expected = ask(page_application, instruction="", limit=3, token_bias={"ferry": -10.0}, filters={"from": "a reader"})
    exported = {}
    for name, suffix in (("CSV", "csv"), ("JSON", "json"), ("Markdown", "md")):
        page.get_by_role("button", name="Export").click()
        with page.expect_download() as download:
            page.get_by_role("button", name=name).click()
        assert download.value.suggested_filename == f"search.{suffix}"
        exported[suffix] = download.value.path().read_text(encoding="utf-8-sig")
    titles = [hit["document"]["title"] for hit in expected["hits"]]
    assert sorted(hit["document"]["title"] for hit in json.loads(exported["json"])["hits"]) == sorted(titles)
    assert [row["title"] for row in csv.DictReader(exported["csv"].splitlines())] == titles
    assert all(title in exported["md"] for title in titles)

    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy citation").first.press("Enter")
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("“")
    assert titles[0] in copied


def box(found: Locator) -> dict[str, float]:
    """Its edges in pixels."""
    edges = found.bounding_box()
    assert edges is not None
    return {**edges, "right": edges["x"] + edges["width"], "bottom": edges["y"] + edges["height"]}


def is_apart(one: Locator, other: Locator) -> bool:
    first, second = box(one), box(other)
    return (
        first["right"] <= second["x"]
        or second["right"] <= first["x"]
        or first["bottom"] <= second["y"]
        or second["bottom"] <= first["y"]
    )


def test_on_a_phone_passages_have_the_whole_width_and_nothing_covers_anything(open_page: Open) -> None:
    opened = open_page(address(), size=PHONE)
    page = complete(opened)
    hit, grade = page.locator(".hit").first, page.locator(".hit-score").first
    assert box(hit.locator("article"))["right"] == pytest.approx(box(hit)["right"], abs=1)
    assert is_apart(grade, hit.locator("h3 button"))
    assert is_apart(grade, hit.locator(".snippet"))
    grade.locator("summary").click()  # its numbers take a column beside the text
    assert is_apart(grade, hit.locator(".snippet"))

    filters = page.get_by_role("button", name="Narrow down")
    assert is_apart(filters, page.locator(".summary"))
    page.get_by_role("button", name="Answer", exact=True).click()
    expect(page.locator(".cited [role=status][aria-busy=false]")).to_be_visible()
    opened.wait_until_still()
    for other in (".cited", ".summary", "section.reading"):
        assert is_apart(filters, page.locator(other)), other
    assert opened.overflows() == []


@ON_PHONE
def test_passages_of_one_document_stand_together_and_can_be_searched_alone(
    open_page: Open, axe: Axe, size: ViewportSize
) -> None:
    opened = open_page(address(PDF_PAGES[1], i="-", d="0.3", l="tables"), size=size)
    page = complete(opened)
    page.get_by_text(f"{len(PDF_PAGES) - 1} more passages from this document").click()
    expect(page.locator(".more-hits .hit .open").first).to_be_visible()
    assert opened.overflows() == []
    axe(opened)
    page.get_by_role("button", name="More from this document").first.click()
    expect(page.locator(".chosen li", has_text="document")).to_contain_text(PDF_TITLE)
    expect(page.locator(".hit")).to_have_count(len(PDF_PAGES))
    complete(opened)
    assert {title for title, _ in shown(page)} == {PDF_TITLE}
    assert parse_qs(urlsplit(page.url).query)["d"] == ["0.3"]
    assert parse_qs(urlsplit(page.url).query)["l"] == ["tables"]


@ON_PHONE
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        pytest.param(address("   "), "you say what “similar” should mean", marks=pytest.mark.long),
        pytest.param(address(i="x" * 2001), "at most 2,000", marks=pytest.mark.long),
        pytest.param(address(x="{broken"), "cannot be read", marks=pytest.mark.long),
        pytest.param(
            address(x='{"like":{"00000000-0000-4000-8000-000000000000":"gone"}}'), "like", marks=pytest.mark.long
        ),
        (address("quay", x='{"filters":{"year":"1802"}}'), "No passage matches all filters"),
    ],
    ids=["blank query", "long instruction", "broken choices", "unknown passage", "no such metadata"],
)
def test_what_cannot_be_answered_is_said_in_words(
    open_page: Open, page_application: PageApplication, asked: str, said: str, size: ViewportSize
) -> None:
    opened = open_page(asked, size=size)
    expect(opened.page.locator("#passages")).to_contain_text(said)
    opened.wait_until_still()
    assert opened.overflows() == []
    assert page_application.incidents() == []


def test_an_empty_query_asks_for_one(open_page: Open) -> None:
    opened = open_page("/")
    opened.page.get_by_role("button", name="Search", exact=True).click()
    expect(opened.page.get_by_role("alert")).to_contain_text("The query is empty")


def test_a_collection_that_is_gone_gives_way_to_one_that_is_there(
    open_page: Open, page_application: PageApplication
) -> None:
    opened = open_page("/?" + urlencode({"q": QUERY, "c": "elsewhere"}))
    expect(opened.page.locator("#passages .summary, #passages .notice").first).to_be_visible()
    expect(opened.page.get_by_role("alert")).to_contain_text("The collection “elsewhere” does not exist")
    assert page_application.incidents() == []


@ON_PHONE
def test_all_collections_are_searched_at_once_and_every_hit_opens_in_its_own(
    open_page: Open, page_application: PageApplication, axe: Axe, size: ViewportSize
) -> None:
    opened = open_page(address("Bake a flat bread", i="-"), size=size)
    page = complete(opened)
    page.locator("#collection input").click()
    page.get_by_role("option", name="All collections").click()
    page.wait_for_function("new URLSearchParams(location.search).get('c') === '*'")
    complete(opened)
    expected = ask(page_application, query="Bake a flat bread", instruction="", collection=ALL_COLLECTIONS)
    assert shown(page) == answered(expected)
    places = [hit["document"]["collection"] for hit in expected["hits"]]
    assert {LETTERS, RECIPES} <= set(places)
    assert page.locator(".hit .hit-source .place").all_text_contents() == places
    expect(page.locator("#facets")).to_be_empty()
    assert opened.overflows() == []
    axe(opened)
    page.locator(".hit", has_text="Flat bread").locator(".open").first.click()
    expect(page.locator("dialog[open] #passage")).to_contain_text("Bake each side in a hot pan.")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    rows = csv.DictReader(download.value.path().read_text(encoding="utf-8-sig").splitlines())
    assert sorted(row["collection"] for row in rows) == sorted(places)
    page.locator(".hit").first.get_by_role("button", name="Does not answer the query", exact=True).click()
    expect(page.locator("#message")).to_contain_text("Saved")

    # A page that looks at one collection falls back to one, and the choice stays.
    opened.follow(page.locator(".site-header nav").get_by_role("link", name="Documents"))
    expect(page.locator("#documents-collection input")).to_have_value(re.compile("."))
    opened.wait_until_still()
    opened.follow(page.locator(".site-header nav").get_by_role("link", name="Saved"))
    link = page.locator("#search-history li", has_text="in all collections").get_by_role("link", name="Bake a flat")
    expect(link).to_be_visible()
    opened.follow(page.locator(".site-header nav").get_by_role("link", name="Search"))
    expect(page.locator("#collection input")).to_have_value("All collections")


@ON_DESKTOP
def test_what_a_query_is_not_about_is_a_chip_and_one_click_restores_its_words(
    open_page: Open, page_application: PageApplication, size: ViewportSize
) -> None:
    query = f"{QUERY}, not about parcels"
    opened = open_page(address(query, i="-"), size=size)
    page = complete(opened)
    assert shown(page) == answered(ask(page_application, query=query, instruction=""))
    assert shown(page) == answered(ask(page_application, query=QUERY, exclude=["parcels"], instruction=""))
    expect(page.locator(".chosen")).to_contain_text("not about parcels")
    page.get_by_role("button", name="Undo not about parcels").click()
    expect(page.locator(".chosen")).to_contain_text("as written: parcels")
    complete(opened)
    assert shown(page) == answered(ask(page_application, query=query, detect_negation=False, instruction=""))
    assert json.loads(parse_qs(urlsplit(page.url).query)["x"][0]) == {"kept": ["parcels"]}

    offered = open_page(address("letters without anger", i="-"), size=size)
    complete(offered)
    offered.page.get_by_role("button", name="Exclude anger").click()
    expect(offered.page.locator(".chosen")).to_contain_text("not about anger")
    complete(offered)
    assert shown(offered.page) == answered(ask(page_application, query="letters", exclude=["anger"], instruction=""))
