"""Answers on the page without a browser: untrusted values in, escaped HTML out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from chat_server import ChatServer, chat_server

from app.answers.service import AnswerService
from app.errors import GircseError
from app.wiring.language_model import ChatServer as ChatClient
from ui.answer_handlers import AnswerHandlers
from ui.language import speaking

EVIL = "The <script>alert(1)</script> institute began in 1928."


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with chat_server() as server:
        yield server


@pytest.fixture
def handlers(toy_services: Any, chat: ChatServer) -> Iterator[AnswerHandlers]:
    toy_services.add(EVIL)
    client = ChatClient(chat.url, model="small<model>")
    services = toy_services.services
    yield AnswerHandlers(answers=AnswerService(services.search, services.embedder, language_model=client))
    client.close()


def asked(handlers: AnswerHandlers, **data: object) -> list[str]:
    question = {"question": "When began the institute script?", "kind": "generate", **data}
    return [html for (html,) in handlers.ask("library", "", question)]


def test_texts_of_documents_and_models_are_escaped(handlers: AnswerHandlers, chat: ChatServer) -> None:
    chat.words = lambda body: ["<img src=x onerror=alert(1)> is so [1]. ", "![x](https://attacker.invalid) [1]."]
    shown = asked(handlers) + [html for (html,) in handlers.answer("institute script alert", "library", "")]
    for html in shown:
        assert "<script" not in html
        assert "<img" not in html
        assert "href=" not in html
        assert "small<model>" not in html
    assert 'class="unchecked"' in shown[1]


def test_turns_are_kept_and_given_back(handlers: AnswerHandlers) -> None:
    turns = json.dumps([["Which institute?", "The lobund one."]])
    last = asked(handlers, turns=turns)[-1]
    assert "Which institute?" in last
    assert "It is so." in last


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "other"},
        {"kind": None},
        {"question": ""},
        {"question": ["x"]},
        {"question": "x" * 2_001},
        {"turns": "{"},
        {"turns": "[" * 5_000},
        {"turns": '[["one"]]'},
        {"turns": "[[1, 2]]"},
        {"turns": {"a": 1}},
        {"turns": "x" * 1_000_000},
    ],
)
def test_what_a_page_would_not_send_is_refused(
    handlers: AnswerHandlers, chat: ChatServer, data: dict[str, Any]
) -> None:
    with pytest.raises(GircseError):
        asked(handlers, **data)
    assert chat.bodies == []


def test_it_is_german_where_the_page_is(handlers: AnswerHandlers, chat: ChatServer) -> None:
    chat.words = lambda body: ["It is so [9]."]
    with speaking("de"):
        shown = asked(handlers)[-1]
        none = [html for (html,) in handlers.answer("zebra", "library", "")][-1]
    assert "Antwort, geschrieben von" in shown
    assert "1 von 1 Sätzen werden" in shown
    assert "das Modell nicht bekommen hat: 9." in shown
    assert "Keine Textstelle beantwortet das." in none
