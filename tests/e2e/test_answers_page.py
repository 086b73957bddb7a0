"""Answers on the search page, in a real browser over a real service; its language model is a double of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from browser import DESKTOP, PHONE, opened_page
from chat_server import ChatServer, chat_server
from gircse_program import Gircse
from page_application import LETTERS, PageApplication, fill, serving_pages
from playwright.sync_api import BrowserContext, ViewportSize, expect

from ui.language import COOKIE

pytestmark = pytest.mark.xdist_group("answers-page")

QUESTION = "When was the ferry due?"
SENTENCE = "The ferry was due at seven."


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    with chat_server() as server:
        yield server


@pytest.fixture(scope="module")
def answering(tmp_path_factory: pytest.TempPathFactory, chat: ChatServer) -> Iterator[PageApplication]:
    folder = tmp_path_factory.mktemp("answering")
    settings = {"GIRCSE_ANSWER_URL": chat.url, "GIRCSE_ANSWER_MODEL": "small-model"}
    with serving_pages(Gircse(home=folder / "home", settings=settings), folder / "up.log") as application:
        fill(application)
        yield application


def test_a_question_is_answered_followed_up_and_put_to_the_model(
    window: BrowserContext, answering: PageApplication, chat: ChatServer, tmp_path: Path
) -> None:
    with opened_page(window, answering.url) as opened:
        page = opened.go("/?" + urlencode({"q": QUESTION, "c": LETTERS}))
        expect(page.locator("#passages mark").first).to_be_visible()
        opened.wait_until_still()
        expect(page.locator(".cited")).to_have_count(0)

        page.get_by_role("button", name="Answer", exact=True).focus()
        page.keyboard.press("Enter")
        cited = page.locator(".cited")
        expect(cited.locator(".cited-text")).to_contain_text(SENTENCE)
        expect(cited.locator("[aria-busy=false]")).to_be_visible()
        assert chat.bodies == []  # nobody has asked the model

        cited.get_by_role("button", name="Passage 1: Late again").first.click()
        expect(page.locator("#document-view dialog[open] mark").first).to_contain_text(SENTENCE)
        page.keyboard.press("Escape")

        chat.words = lambda body: ["It was due ", "at seven [1][42]. ", "Zebras <b>whistle</b> [2]."]
        cited.get_by_role("button", name="Ask small-model").click()
        expect(cited.locator(".cited-text")).to_contain_text("It was due at seven.")
        expect(cited.locator(".unsupported")).to_have_text("Zebras <b>whistle</b>.")
        expect(cited).to_contain_text("Removed citations of passages that the model did not get: 42.")
        cited.get_by_text("What was sent").click()
        expect(cited.locator(".cited-sent pre").last).to_contain_text(SENTENCE)
        assert len(chat.bodies) == 1

        chat.words = lambda body: ["For an hour [1]."]
        cited.get_by_label("Follow-up question").fill("How long did I stand there?")
        page.keyboard.press("Enter")
        expect(cited.locator(".cited-turn summary")).to_have_text(QUESTION)
        expect(cited.locator(".cited-text")).to_contain_text("For an hour.")
        assert [each["role"] for each in chat.bodies[-1]["messages"]] == ["system", "user", "assistant", "user"]

        chat.status = 401
        cited.get_by_label("Follow-up question").fill("And then?")
        page.keyboard.press("Enter")
        expect(page.locator("#cited-answer [role=alert]")).to_contain_text("rejects the API key")
        chat.status = 200

        page.get_by_label("Search for").fill("kettle")
        page.get_by_label("Search for").press("Enter")
        expect(page.locator(".hit .snippet").first).to_contain_text("kettle")
        expect(page.locator("#cited-answer")).to_be_hidden()
    assert answering.incidents() == []


@pytest.mark.parametrize(
    ("size", "language"),
    [
        pytest.param(PHONE, "de", id="phone in German"),  # the narrowest screen with the longest words
        pytest.param(PHONE, "en", id="phone", marks=pytest.mark.long),
        pytest.param(DESKTOP, "de", id="desktop in German", marks=pytest.mark.long),
        pytest.param(DESKTOP, "en", id="desktop"),
    ],
)
def test_the_button_moves_no_hit(
    window: BrowserContext, answering: PageApplication, size: ViewportSize, language: str
) -> None:
    with opened_page(window, answering.url, size=size) as opened:
        window.add_cookies([{"name": COOKIE, "value": language, "url": answering.url}])
        page = opened.go("/?" + urlencode({"q": "kettle", "c": LETTERS}))
        expect(page.locator("#passages mark").first).to_be_visible()
        opened.wait_until_still()
        line = page.locator(".summary").bounding_box()
        button = page.locator(".summary [data-event=answer]").bounding_box()
        assert line is not None
        assert button is not None
        assert line["height"] < 30  # one line, as without it
        assert opened.overflows() == []
        window.clear_cookies()
