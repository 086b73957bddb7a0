"""The compare page over the real service: two looks at one query, on a desktop and on a phone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from browser import DESKTOP, ON_DESKTOP, ON_PHONE, OpenPage
from page_application import EMPTY, LETTERS, PageApplication
from playwright.sync_api import Page, ViewportSize, expect

QUERY = "I am angry about the ferry"
PLACE, FEELING = "Identify the region of the world the text is about.", "Represent the emotion of this text."
Open = Callable[..., OpenPage]
Axe = Callable[[OpenPage], None]


def address(**asked: object) -> str:
    return f"/compare?{urlencode({'c1': LETTERS, **asked})}"


def asked_of(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def wait_for_both(opened: OpenPage) -> None:
    """Until both lists carry the sentences that matter, which come last."""
    expect(opened.page.locator(".list.is-a mark").first).to_be_visible()
    expect(opened.page.locator(".list.is-b mark").first).to_be_visible()
    opened.wait_until_still()


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_label(label).click()
    page.get_by_role("option", name=option, exact=True).click()


@ON_DESKTOP
def test_a_query_and_a_lens_show_both_ways_of_looking(open_page: Open, axe: Axe, size: ViewportSize) -> None:
    opened = open_page(f"/compare?c1={LETTERS}", size=size)
    page = opened.page
    expect(page.locator(".welcome")).to_be_visible()
    expect(page.get_by_label("Instruction B")).not_to_have_value("")  # the page has filled its fields
    expect(page.get_by_label("Instruction A")).to_have_value("")
    page.get_by_label("Compare searches for").fill(QUERY)
    choose(page, "Lens B", "Same feeling")
    wait_for_both(opened)
    expect(page.get_by_label("Instruction B")).to_have_value(FEELING)

    expect(page.locator(".verdict")).to_contain_text("Both lists have the same passages")
    expect(page.locator(".look h2")).to_have_text(["A No lens", "B Same feeling"])
    expect(page.locator(".side-reading .group").first).to_be_visible()
    expect(page.locator(".list.is-b .move")).to_have_count(page.locator(".list.is-b li").count())
    assert page.locator(".moves svg").is_visible() == (size == DESKTOP)
    asked = asked_of(page)
    assert (asked["q"], asked["i1"], asked["i2"], asked["c1"], asked["c2"]) == (QUERY, "-", FEELING, LETTERS, LETTERS)
    assert opened.overflows() == []
    axe(opened)


@ON_DESKTOP
def test_both_sides_show_what_the_api_answers(
    open_page: Open, page_application: PageApplication, size: ViewportSize
) -> None:
    choices = json.dumps({"bias": {"boat": 5}})
    opened = open_page(address(q=QUERY, i1=PLACE, i2=FEELING, k1=4, k2=6, x2=choices), size=size)
    wait_for_both(opened)
    asked: dict[str, dict[str, Any]] = {
        "a": {"instruction": PLACE, "steps": 4},
        "b": {"instruction": FEELING, "steps": 6, "token_bias": {"boat": 5}},
    }
    for side, options in asked.items():
        answer = page_application.server.search(QUERY, collection=LETTERS, **options)
        shown = opened.page.locator(f".list.is-{side} li")
        expect(shown.locator(".open")).to_have_text([hit["document"]["title"] for hit in answer["hits"]])
        expect(shown.locator(".place-score")).to_have_text([f"{hit['score']:.3f}" for hit in answer["hits"]])
        rows = opened.page.locator(f".side-reading.is-{side} table.steps tbody tr")
        for row, step in zip(rows.all(), answer["refinement"], strict=True):
            said = [" ".join((each.text_content() or "").split()) for each in row.locator("li").all()]
            assert said == [f"{each['token']} {each['probability']:.3f}" for each in step["tokens"][: len(said)]]
            assert said
    plain = page_application.server.search(QUERY, collection=LETTERS, instruction=FEELING, steps=6)
    ranked = [[(hit["document"]["title"], hit["score"]) for hit in each["hits"]] for each in (plain, answer)]
    assert ranked[0] != ranked[1], "the word changed nothing, so this test would not notice it"


@ON_PHONE
def test_two_lenses_with_their_values_side_by_side(
    open_page: Open, page_application: PageApplication, axe: Axe, size: ViewportSize
) -> None:
    opened = open_page(address(q=QUERY, i1=PLACE, v1="sea, land", i2=FEELING, v2="anger; joy", k1=2, k2=2), size=size)
    page = opened.page
    wait_for_both(opened)
    for side, instruction, values in (("a", PLACE, ["sea", "land"]), ("b", FEELING, ["anger", "joy"])):
        answer = page_application.server.search(
            QUERY, collection=LETTERS, instruction=instruction, steps=2, values=values
        )
        shown = page.locator(f".list.is-{side} li")
        expect(shown.locator(".place-score")).to_have_text([f"{hit['score']:.3f}" for hit in answer["hits"]])
        names = [hit["value"]["name"].replace("other", "Other") for hit in answer["hits"]]
        expect(shown.locator(".value")).to_have_text(names)
        counts = page.locator(f".look.is-{side} .values button b")
        expect(counts).to_have_text([str(each["count"]) for each in answer["values"]["counts"]])
    assert opened.overflows() == []
    axe(opened)
    page.get_by_role("button", name="Swap").click()
    expect(page.get_by_label("Values A")).to_have_value("anger; joy")
    page.wait_for_url("**v1=anger**")
    assert (asked_of(page)["v1"], asked_of(page)["v2"]) == ("anger; joy", "sea, land")
    expect(page.get_by_role("link", name="Open B in search")).to_have_attribute("href", re.compile("v=sea"))


@ON_PHONE
def test_swapping_changes_sides_and_back_undoes_it(open_page: Open, size: ViewportSize) -> None:
    opened = open_page(address(q=QUERY, i1=PLACE, i2=FEELING, k1=2, k2=3), size=size)
    page = opened.page
    wait_for_both(opened)
    page.get_by_role("button", name="Swap").click()
    expect(page.locator(".look h2")).to_have_text(["A Same feeling", "B Same place"])
    wait_for_both(opened)
    asked = asked_of(page)
    assert (asked["i1"], asked["i2"], asked["k1"], asked["k2"]) == (FEELING, PLACE, "3", "2")
    with opened.loading_again():
        page.go_back()
        expect(page.locator(".look h2")).to_have_text(["A Same place", "B Same feeling"])
    wait_for_both(opened)


def test_a_word_that_is_clicked_counts_more_on_its_side_alone(open_page: Open) -> None:
    opened = open_page(address(q=QUERY, i1=PLACE, k1=2, k2=2))
    page = opened.page
    wait_for_both(opened)
    token = page.locator(".side-reading.is-b .token").first
    token.locator("button.word").click()
    page.locator(".token-menu:popover-open").get_by_role("button", name="More").click()
    expect(page.locator(".look.is-b .chosen")).to_be_visible()
    wait_for_both(opened)
    expect(page.locator(".look.is-a .chosen")).to_have_count(0)
    asked = asked_of(page)
    assert "bias" in asked["x2"]
    assert "x1" not in asked
    assert urlencode({"x": asked["x2"]}) in str(page.get_by_role("link", name="Open B in search").get_attribute("href"))


def test_lines_end_at_the_passages_that_they_join(open_page: Open) -> None:
    opened = open_page(address(q=QUERY, i1=PLACE, i2=FEELING, k1=2, k2=2))
    wait_for_both(opened)
    apart = opened.page.evaluate(
        """() => [...document.querySelectorAll('.line[data-pair]')].map((line) => {
          const middle = (box) => box.top + box.height / 2;
          const row = document.querySelector(`.list.is-b li[data-pair="${line.dataset.pair}"]`);
          return middle(line.querySelector('.tip').getBoundingClientRect()) - middle(row.getBoundingClientRect());
        })"""
    )
    assert apart
    assert all(abs(each) < 2 for each in apart), apart


def test_a_whole_passage_opens_and_closes_by_keys(open_page: Open) -> None:
    opened = open_page(address(q=QUERY, k1=1, k2=1))
    page = opened.page
    wait_for_both(opened)
    page.locator(".list.is-b .open").first.focus()
    page.keyboard.press("Enter")
    whole = page.locator("#passage-b-1")
    expect(whole).to_be_visible()
    expect(whole.locator("mark")).to_be_visible()
    page.keyboard.press("Escape")
    expect(whole).to_be_hidden()


@ON_PHONE
def test_an_empty_query_gets_advice(open_page: Open, axe: Axe, size: ViewportSize) -> None:
    opened = open_page(f"/compare?c1={LETTERS}", size=size)
    opened.page.get_by_role("button", name="Compare", exact=True).click()
    expect(opened.page.get_by_role("alert")).to_contain_text("The query is empty")
    assert opened.overflows() == []
    axe(opened)


@pytest.mark.long
@ON_DESKTOP
def test_an_address_with_an_unknown_collection_is_not_half_followed(open_page: Open, size: ViewportSize) -> None:
    opened = open_page(address(q=QUERY, c2="<b>gone</b>"), size=size)
    alert = opened.page.get_by_role("alert")
    expect(alert).to_contain_text("B: the collection “<b>gone</b>” does not exist")
    expect(alert).to_contain_text(LETTERS)
    expect(opened.page.locator(".list")).to_have_count(0)
    expect(opened.page.get_by_label("Compare searches for")).to_have_value(QUERY)
    assert opened.overflows() == []


@ON_PHONE
def test_an_instruction_that_is_too_long_is_named_by_its_side(open_page: Open, size: ViewportSize) -> None:
    opened = open_page(address(q=QUERY), size=size)
    wait_for_both(opened)
    opened.page.get_by_label("Instruction B").fill("long " * 500)
    opened.page.get_by_label("Compare searches for").press("Enter")
    expect(opened.page.get_by_role("alert")).to_contain_text("instruction B has 2,500 characters")
    expect(opened.page.locator(".list")).to_have_count(0)


@pytest.mark.long
@ON_PHONE
def test_a_collection_without_passages_leaves_the_other_side_standing(open_page: Open, size: ViewportSize) -> None:
    opened = open_page(address(q=QUERY, c2=EMPTY, k1=1, k2=1), size=size)
    expect(opened.page.locator(".list.is-a mark").first).to_be_visible()
    expect(opened.page.locator(".list.is-b")).to_contain_text("has no matching passages")
    expect(opened.page.locator(".verdict")).to_contain_text("0 of")


@pytest.mark.long
@ON_DESKTOP
def test_a_collection_that_was_deleted_meanwhile_is_said_so(
    open_page: Open, page_application: PageApplication, size: ViewportSize
) -> None:
    name = f"short-lived-{size['width']}"
    page_application.server.ask("/api/v1/collections", {"name": name})
    opened = open_page(address(q=QUERY, c2=name, k1=1, k2=1), size=size)
    expect(opened.page.locator(".list.is-a mark").first).to_be_visible()
    page_application.server.ask(f"/api/v1/collections/{name}", method="DELETE")
    opened.page.get_by_label("Compare searches for").press("Enter")
    expect(opened.page.get_by_role("alert")).to_contain_text(f"No collection named '{name}'")
