"""The page of saved and past searches: its handlers over a real catalog, and the links that ask a search again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from api_application import authorized
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.collections.own_searches import RecordedSearches
from app.errors import GircseError, InputError
from app.search.value_syntax import parse_values
from app.types.access import OPERATOR, Principal, Role, acting_as
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
    assert parameters(search_address(catalog, plain)) == {"q": "cat", "c": "library"}
    by_lens = parameters(search_address(catalog, {"query": "cat", "collection": "library", "lens": "Same place"}))
    assert "Africa" in by_lens["v"]
    assert "region" in by_lens["i"]
    gone = parameters(search_address(catalog, {"query": "cat", "collection": "library", "lens": "gone"}))
    assert gone == {"q": "cat", "c": "library"}


def handlers_over(toy_services: Any, *, history_limit: int) -> SavedHandlers:
    services = toy_services.services
    searches = RecordedSearches(services.catalog.searches, owner=lambda: OPERATOR.name, history_limit=history_limit)
    return SavedHandlers(catalog=services.catalog, searches=searches, standing=authorized(services).standing)


@pytest.fixture(autouse=True)
def as_operator() -> Iterator[None]:
    with acting_as(OPERATOR):
        yield


@pytest.fixture
def handlers(toy_services: Any) -> SavedHandlers:
    return handlers_over(toy_services, history_limit=3)


def id_of(html: str, action: str) -> str:
    return re.findall(rf'data-action="{action}" data-subject="([^"]*)"', html)[0]


def test_a_past_search_is_saved_opened_and_deleted(handlers: SavedHandlers) -> None:
    assert [("No saved searches yet" in each, "No searches yet" in each) for each in handlers.show()] == [
        (True, False),
        (False, True),
    ]
    handlers.searches.record(RICH)
    saved, history = handlers.show()
    assert "in library · Where is it? · kind: note · not about New York · by meaning" in history
    assert f"Saved as “{RICH.query}”" in unescape(handlers.act({"action": "save", "subject": id_of(history, "save")}))
    saved, _ = handlers.show()
    (address,) = re.findall(r'href="([^"]*)"', saved)
    assert parameters(unescape(address))["q"] == RICH.query
    assert f"Delete the saved search “{RICH.query}”?" in unescape(saved)  # before it is gone
    deleted = handlers.act({"action": "delete", "subject": id_of(saved, "delete")})
    assert f"The saved search “{RICH.query}” was deleted." in unescape(deleted)
    handlers.act({"action": "forget", "subject": id_of(history, "forget")})
    assert handlers.searches.saved() == handlers.searches.history() == []
    handlers.searches.record(RICH)
    assert "empty" in handlers.act({"action": "clear"})
    assert handlers.searches.history() == []
    with pytest.raises(InputError, match="no longer in your history"):
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
    off = handlers_over(toy_services, history_limit=0)
    assert "The history is turned off" in off.show()[1]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(["action", "subject"]), JUNK), JUNK)
def test_junk_gets_a_reason(handlers: SavedHandlers, data: dict[str, object], name: object) -> None:
    with pytest.raises(GircseError):
        handlers.act(data)
    for action in ("save", "delete", "forget", "watch", "rewatch", "unwatch", "seen", "renew-feed"):
        with pytest.raises(GircseError):
            handlers.act({**data, "action": action})
    if not isinstance(name, str) and name is not None:
        with pytest.raises(GircseError):
            handlers.save(name, lambda: RICH)


def test_a_saved_search_keeps_watch_and_shows_what_is_new(toy_services: Any, handlers: SavedHandlers) -> None:
    toy_services.services.library.ensure_collection("library")
    handlers.save("cats", lambda: SearchRequest("cat", "library"))
    search = id_of(handlers.show()[0], "watch")
    assert "Alert saved" in handlers.act({"action": "watch", "subject": search})
    assert "nothing new" in handlers.show()[0]
    toy_services.add("cat <b>sleeps</b>")
    saved, _ = handlers.show()
    assert ("1 new" in saved, "cat &lt;b&gt;sleeps" in saved) == (True, True)
    feed = re.findall(r'value="(/feeds/[^"]*)"', saved)
    handlers.act({"action": "renew-feed", "subject": search})
    assert re.findall(r'value="(/feeds/[^"]*)"', handlers.show()[0]) != feed
    fields = {"strength": "strong", "webhook": "https://example.org/hook"}
    handlers.act({"action": "rewatch", "subject": search, **fields})
    watch = handlers.standing.find(search).watch
    assert (watch.strength, watch.webhook, watch.alert) == ("strong", "https://example.org/hook", None)
    assert handlers.standing.find(search).webhook_secret in handlers.show()[0]
    for wrong in ({"strength": "weak"}, {"strength": "fair", "webhook": "ftp://x"}, {"strength": "fair", "alert": "x"}):
        with pytest.raises(InputError):
            handlers.act({"action": "rewatch", "subject": search, **wrong})
    handlers.act({"action": "seen", "subject": search})
    assert "nothing new" in handlers.show()[0]
    handlers.act({"action": "unwatch", "subject": search})
    assert id_of(handlers.show()[0], "watch") == search


def test_news_of_a_collection_that_may_not_be_read_any_more_is_hidden(
    toy_services: Any, handlers: SavedHandlers
) -> None:
    toy_services.services.library.ensure_collection("library")
    handlers.save("cats", lambda: SearchRequest("cat", "library"))
    handlers.act({"action": "watch", "subject": id_of(handlers.show()[0], "watch")})
    toy_services.add("cat sleeps")
    with acting_as(Principal(OPERATOR.name, Role.READER, ("other",))):
        assert "cat sleeps" not in handlers.show()[0]
