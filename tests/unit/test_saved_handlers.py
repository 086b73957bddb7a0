"""The page of saved and past searches: its handlers over a real catalog, and the links that ask a search again."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import GircseError, InputError
from app.search.own_searches import OwnSearches
from app.search.value_syntax import parse_values
from app.types.search import SearchMode, SearchRequest
from app.types.searches import question_of
from ui.choices import Choices, read_choices
from ui.saved_handlers import SavedHandlers
from ui.search_links import search_address

JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.text()), st.binary())
RICH = SearchRequest(
    query="not about ships & boats?",
    collection="library",
    instruction="Where is it?",
    steps=3,
    limit=20,
    filters={"kind": "note"},
    token_bias={"sea": 5.0},
    mode=SearchMode.DENSE,
    like=("c1",),
    values=parse_values(["Africa", "Asia = China, Japan"]),
    value="Asia",
    rerank=0,
    exclude=("New York",),
    detect_negation=False,
    prefer_prose=False,
    diversity=0.3,
)


def parameters(address: str) -> dict[str, str]:
    assert urlsplit(address).path == "/"
    return {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()}


def test_a_link_holds_all_that_was_asked(toy_services: Any) -> None:
    found = parameters(search_address(toy_services.services.catalog, question_of(RICH)))
    choices = read_choices(found.pop("x"))
    assert choices == Choices(
        bias={"sea": 5.0},
        filters={"kind": "note"},
        like={"c1": "a passage"},
        value="Asia",
        exclude=("New York",),
        kept=(RICH.query,),
    )
    assert choices.is_as_written(RICH.query)
    assert found == {
        "q": RICH.query,
        "i": "Where is it?",
        "v": "Africa; Asia = China, Japan",
        "k": "3",
        "m": "dense",
        "c": "library",
        "n": "20",
        "l": "duplicates",
        "d": "0.3",
        "r": "0",
    }


def test_a_link_leaves_out_what_is_as_usual_and_resolves_a_lens(toy_services: Any) -> None:
    catalog = toy_services.services.catalog
    plain = question_of(SearchRequest(query="cat", collection="library", instruction=""))
    assert parameters(search_address(catalog, plain)) == {"q": "cat", "c": "library", "i": "-"}
    by_lens = parameters(search_address(catalog, {"query": "cat", "collection": "library", "lens": "Same place"}))
    assert "Africa" in by_lens["v"]
    assert "region" in by_lens["i"]
    gone = parameters(search_address(catalog, {"query": "cat", "collection": "library", "lens": "gone"}))
    assert gone == {"q": "cat", "c": "library", "i": "-"}


@pytest.fixture
def handlers(toy_services: Any) -> SavedHandlers:
    catalog = toy_services.services.catalog
    return SavedHandlers(catalog=catalog, searches=OwnSearches(catalog, owner=lambda: "operator", history_limit=3))


def id_of(html: str, action: str) -> str:
    return re.findall(rf'data-action="{action}" data-subject="([^"]*)"', html)[0]


def test_a_past_search_is_saved_opened_and_deleted(handlers: SavedHandlers) -> None:
    assert [("None yet" in each, "Nothing yet" in each) for each in handlers.show()] == [(True, False), (False, True)]
    handlers.searches.record(RICH)
    saved, history = handlers.show()
    assert "in library · Where is it? · kind: note · not about New York · by meaning" in history
    assert f"Saved as “{RICH.query}”" in unescape(handlers.act({"action": "save", "subject": id_of(history, "save")}))
    saved, _ = handlers.show()
    (address,) = re.findall(r'href="([^"]*)"', saved)
    assert parameters(unescape(address))["q"] == RICH.query
    handlers.act({"action": "delete", "subject": id_of(saved, "delete")})
    handlers.act({"action": "forget", "subject": id_of(history, "forget")})
    assert handlers.searches.saved() == handlers.searches.history() == []
    handlers.searches.record(RICH)
    assert "empty" in handlers.act({"action": "clear"})
    assert handlers.searches.history() == []
    with pytest.raises(InputError, match="not in your history"):
        handlers.act({"action": "save", "subject": "gone"})


def test_what_a_page_shows_is_saved_under_its_name_or_its_query(handlers: SavedHandlers) -> None:
    assert "“ships”" in handlers.save(" ships ", lambda: RICH)
    assert "not about ships" in handlers.save("", lambda: RICH)
    assert [each.name for each in handlers.searches.saved()] == [RICH.query, "ships"]
    handlers.save("", lambda: RICH)
    assert len(handlers.searches.saved()) == 2
    assert f"{RICH.query} (2)" in unescape(handlers.save("", lambda: replace(RICH, steps=1)))
    with pytest.raises(InputError):
        handlers.save("x" * 81, lambda: RICH)


def test_a_history_that_is_switched_off_says_so(toy_services: Any) -> None:
    catalog = toy_services.services.catalog
    off = SavedHandlers(catalog=catalog, searches=OwnSearches(catalog, owner=lambda: "operator", history_limit=0))
    assert "No history is kept" in off.show()[1]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(["action", "subject"]), JUNK), JUNK)
def test_junk_gets_a_reason(handlers: SavedHandlers, data: dict[str, object], name: object) -> None:
    with pytest.raises(GircseError):
        handlers.act(data)
    for action in ("save", "delete", "forget"):
        with pytest.raises(GircseError):
            handlers.act({**data, "action": action})
    if not isinstance(name, str) and name is not None:
        with pytest.raises(GircseError):
            handlers.save(name, lambda: RICH)
