"""Saved searches and the history: what the API, the pages and the command line keep for one person."""

from __future__ import annotations

from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from locked_catalog import locked

from app.api.search_schemas import SearchQuestion
from app.catalog import lock_waits
from app.collections.own_searches import RecordedSearches
from app.errors import InputError, NotFoundError
from app.search.value_syntax import parse_values
from app.types.patience import answering
from app.types.search import SearchMode, SearchRequest, read_request
from app.types.searches import question_of

requests = st.builds(
    SearchRequest,
    query=st.text(min_size=1, max_size=20),
    collection=st.just("library"),
    instruction=st.none() | st.text(max_size=20),
    steps=st.none() | st.integers(0, 20),
    limit=st.integers(1, 100),
    filters=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    token_bias=st.dictionaries(st.text(max_size=5), st.sampled_from([5.0, -1.5]), max_size=2),
    mode=st.sampled_from(SearchMode),
    like=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    values=st.sampled_from([(), parse_values(["Africa", "Asia = China, Japan"])]),
    value=st.none() | st.just("Asia"),
    rerank=st.none() | st.integers(0, 200),
    per_document=st.none() | st.integers(1, 9),
    exclude=st.sampled_from([(), ("New York",)]),
    detect_negation=st.booleans(),
    prefer_prose=st.booleans(),
    fold_duplicates=st.booleans(),
    diversity=st.sampled_from([0.0, 0.3]),
)


@given(requests)
def test_a_request_is_kept_as_the_api_takes_it(request: SearchRequest) -> None:
    question = SearchQuestion.model_validate(question_of(request))
    written = dict(question)
    values = parse_values(written["values"] or [])
    assert read_request(written, instruction=written["instruction"], values=values) == request


def test_what_authorization_adds_to_a_request_is_not_part_of_the_question() -> None:
    question = question_of(SearchRequest("cat", "*", among=frozenset({"zoo"})))
    assert question == {"query": "cat", "collection": "*"}
    SearchQuestion.model_validate(question)


@pytest.fixture
def client(toy_services: Any) -> TestClient:
    toy_services.add("The cat sleeps.")
    return TestClient(api_of(toy_services.services), raise_server_exceptions=False)


def own(toy_services: Any, history_limit: int = 2) -> RecordedSearches:
    return RecordedSearches(
        toy_services.services.catalog.searches, owner=lambda: "operator", history_limit=history_limit
    )


def test_half_characters_of_an_earlier_release_hide_no_other_search(toy_services: Any, client: TestClient) -> None:
    records = toy_services.services.catalog.searches
    asked = {"query": "cat \ud83d", "collection": "library", "filters": {"k\udc00": "v"}}
    kept = records.save_search("operator", "half", asked)
    records.save_search("operator", "whole", {"query": "cat", "collection": "library"})
    records.record_search("operator", asked, keep=2)
    found = client.get("/api/v1/saved-searches")
    assert [each["name"] for each in found.json()] == ["half", "whole"]
    repaired = {"query": "cat \ufffd", "collection": "library", "filters": {"k\ufffd": "v"}}
    assert found.json()[0]["request"] == repaired
    assert client.get("/api/v1/saved-searches/half").json()["request"] == repaired
    assert [each["request"] for each in client.get("/api/v1/history").json()] == [repaired]
    assert client.delete(f"/api/v1/saved-searches/{kept.id}").status_code == 204


def test_a_search_is_saved_listed_asked_and_deleted_over_http(client: TestClient) -> None:
    body = {"name": "cats", "request": {"query": "cat", "filters": {"kind": "note"}, "lens": "Same place"}}
    saved = client.post("/api/v1/saved-searches", json=body).json()
    assert saved["request"] == {**body["request"], "collection": "library"}  # type: ignore[dict-item]
    assert client.get("/api/v1/saved-searches").json() == [saved]
    assert client.get("/api/v1/saved-searches/cats").json() == saved
    assert client.post("/api/v1/search", json=saved["request"]).status_code == 200
    for wrong in ({"name": "", "request": {"query": "a"}}, {"name": "a\nb", "request": {"query": "a"}}):
        assert client.post("/api/v1/saved-searches", json=wrong).status_code == 422
    assert client.post("/api/v1/saved-searches", json={"name": "a", "request": {"limit": 5}}).status_code == 422
    assert client.delete(f"/api/v1/saved-searches/{saved['id']}").status_code == 204
    assert client.delete(f"/api/v1/saved-searches/{saved['id']}").status_code == 404
    assert client.get("/api/v1/saved-searches").json() == []
    assert client.post("/api/v1/saved-searches", json=body).status_code == 200
    assert client.delete("/api/v1/saved-searches/cats").status_code == 204
    assert client.get("/api/v1/saved-searches").json() == []


def test_a_search_is_renamed_and_keeps_its_alert(client: TestClient) -> None:
    for name in ("cats", "dogs"):
        client.post("/api/v1/saved-searches", json={"name": name, "request": {"query": name}})
    client.put("/api/v1/saved-searches/cats/watch", json={})
    before = client.get("/api/v1/saved-searches/cats").json()
    renamed = client.patch("/api/v1/saved-searches/cats", json={"name": " kittens "})
    assert renamed.json() == before | {"name": "kittens"}
    assert [each["name"] for each in client.get("/api/v1/standing-searches").json()] == ["kittens"]
    assert client.get("/api/v1/saved-searches/cats").status_code == 404
    taken = client.patch("/api/v1/saved-searches/kittens", json={"name": "dogs"})
    assert (taken.status_code, "another saved search named 'dogs'" in taken.json()["detail"]) == (409, True)
    assert client.patch("/api/v1/saved-searches/kittens", json={"name": "kittens"}).status_code == 200
    assert client.patch("/api/v1/saved-searches/kittens", json={"name": "a\nb"}).status_code == 422
    assert client.patch("/api/v1/saved-searches/none", json={"name": "a"}).status_code == 404
    assert [each["name"] for each in client.get("/api/v1/saved-searches").json()] == ["dogs", "kittens"]


def test_the_history_is_listed_and_forgotten_over_http(client: TestClient, toy_services: Any) -> None:
    client.post("/api/v1/search", json={"query": "a program's"})
    assert client.get("/api/v1/history").json() == []
    for query in ("first", "second", "third"):
        own(toy_services).record(SearchRequest(query=query, collection="library", instruction="i"))
    found = client.get("/api/v1/history").json()
    assert [each["request"]["query"] for each in found] == ["third", "second"]
    assert found[0]["request"] == {"query": "third", "collection": "library", "instruction": "i"}
    assert client.delete(f"/api/v1/history/{found[0]['id']}").status_code == 204
    assert client.delete(f"/api/v1/history/{found[0]['id']}").status_code == 404
    assert client.delete("/api/v1/history").status_code == 204
    assert client.get("/api/v1/history").json() == []


def test_a_history_that_is_switched_off_is_empty_and_forgotten(toy_services: Any) -> None:
    request = SearchRequest(query="cat", collection="library")
    own(toy_services).record(request)
    off = own(toy_services, history_limit=0)
    assert off.history() == []
    off.record(request)
    assert own(toy_services).history() == []


def test_a_locked_catalog_fails_no_search_whose_history_it_keeps(
    toy_services: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_waits, "LOCK_S", 0.1)
    request = SearchRequest(query="cat", collection="library")
    own(toy_services).record(request)
    with answering(), locked(toy_services.services.catalog.database.engine):
        own(toy_services).record(request)
        own(toy_services, history_limit=0).record(request)
    assert len(own(toy_services).history()) == 1


def test_what_cannot_be_saved_is_refused_with_the_reason(toy_services: Any) -> None:
    searches = own(toy_services)
    for name in ("", " ", "x" * 81, "a\tb", "a\u2028b"):
        with pytest.raises(InputError, match="cannot name a search"):
            searches.save(name, {"query": "a"})
    with pytest.raises(InputError, match="at most 200,000"):
        searches.save("long", {"query": "a" * 200_000})
    with pytest.raises(NotFoundError, match="no saved search 'none'"):
        searches.find("none")
