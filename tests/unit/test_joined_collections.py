"""All collections searched as one: as if their chunks were in one index, and no further than the caller may see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from api_application import api_of, authorized
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from app.errors import DamagedIndexError, FingerprintMismatchError, ForbiddenError, UnknownCollectionError
from app.ports.parts import AlwaysSound
from app.search.export import search_markdown
from app.search.joined_indexes import INDEX_KEY, JoinedIndexes, joined_name
from app.search.service import SearchService
from app.testing import InMemoryVectorIndex
from app.types.access import OPERATOR, Principal, Role, acting_as
from app.types.documents import Collection, Point
from app.types.search import ALL_COLLECTIONS, Match, SearchMode, SearchRequest, SearchResult

TEXTS = {
    "zoo": ("the cat sleeps on the sofa", "the dog barks at night", "a horse and a cart"),
    "port": ("boats leave the harbour at noon", "the cat of the harbour master", "fog over the quay"),
}


@pytest.fixture
def application(toy_services: Any) -> Any:
    for collection, texts in TEXTS.items():
        for text in texts:
            toy_services.add(text, collection=collection, metadata={"half": collection[0]})
    return toy_services


def search(application: Any, query: str = "the cat of the harbour", **more: Any) -> SearchResult:
    found: SearchResult = application.services.search.search(SearchRequest(query, ALL_COLLECTIONS, **more))
    return found


def places(result: SearchResult) -> dict[str, str]:
    return {hit.chunk.text: hit.document.collection for hit in result.hits}


@pytest.mark.parametrize("mode", SearchMode)
def test_hits_of_all_collections_stand_in_one_ranking_and_say_where_they_are(
    application: Any, mode: SearchMode
) -> None:
    found = search(application, mode=mode)
    assert found.hits[0].chunk.text == "the cat of the harbour master"
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert places(found).items() <= {text: name for name, texts in TEXTS.items() for text in texts}.items()
    assert set(places(found).values()) == set(TEXTS)
    assert found.match is not Match.WEAK
    assert found.notes == ()


def test_cosines_are_those_of_each_collection_alone(application: Any) -> None:
    joined = {hit.chunk.id: hit.score for hit in search(application, mode=SearchMode.DENSE).hits}
    for name in TEXTS:
        request = SearchRequest("the cat of the harbour", name, mode=SearchMode.DENSE)
        alone = application.services.search.search(request)
        assert {hit.chunk.id: hit.score for hit in alone.hits}.items() <= joined.items()
        assert {hit.document.collection for hit in alone.hits} == {name}


def test_options_work_over_all_of_them(application: Any) -> None:
    assert set(places(search(application, filters={"half": "p"})).values()) == {"port"}
    like = next(hit.chunk.id for hit in search(application).hits if hit.chunk.text == "the dog barks at night")
    assert search(application, "fog", like=(like,), mode=SearchMode.DENSE).hits
    assert search(application, "harbour, not about cats").exclusions
    found = search(application, diversity=0.5, rerank=3, instruction="Which animal?")
    assert len(found.hits) == 6
    assert "In all collections" in search_markdown(found)


def test_what_was_embedded_otherwise_is_left_out_and_named(application: Any) -> None:
    services = application.services
    services.library.create_collection("strange", document_instruction="Name the animal.")
    application.add("the cat of the strange harbour", collection="strange")
    found = search(application)
    assert "strange" not in places(found).values()
    assert any("strange" in note and "reindex" in note for note in found.notes)


def test_a_damaged_index_is_left_out_and_named(application: Any) -> None:
    class Damaged(AlwaysSound):
        names: ClassVar[set[str]] = {"zoo"}

        def require_sound(self, collection: Collection) -> None:
            if collection.name in self.names:
                raise DamagedIndexError(collection.name, "its vectors are zero")

    services, damaged = application.services, Damaged()
    service = SearchService(services.catalog, services.index, services.embedder, soundness=damaged)
    found = service.search(SearchRequest("the cat of the harbour", ALL_COLLECTIONS))
    assert set(places(found).values()) == {"port"}
    assert any("zoo" in note and "doctor --rebuild" in note for note in found.notes)
    Damaged.names = set(TEXTS)
    with pytest.raises(DamagedIndexError):
        service.search(SearchRequest("cat", ALL_COLLECTIONS))


def test_where_nothing_can_be_searched_the_reason_is_told(toy_services: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownCollectionError):
        search(toy_services)
    toy_services.add("a text")
    other = replace(toy_services.embedder.info, fingerprint="another")
    monkeypatch.setattr(type(toy_services.embedder), "info", property(lambda _: other))
    with pytest.raises(FingerprintMismatchError, match="All 1 collections"):
        search(toy_services)


def test_only_what_the_caller_may_see_is_searched(application: Any) -> None:
    services = authorized(application.services)
    request = SearchRequest("the cat of the harbour", ALL_COLLECTIONS, among=frozenset(TEXTS))  # nobody can widen it
    with acting_as(Principal("anna", Role.READER, ("zoo",))):
        found = services.search.search(request, highlight=False)
        assert set(places(found).values()) == {"zoo"}
        assert services.search.highlight(replace(found, among=None)).match is not None
    with acting_as(Principal("ben", Role.READER, ("nothing",))), pytest.raises(UnknownCollectionError):
        services.search.search(request)
    with acting_as(OPERATOR):
        everything = services.search.search(request)
        assert set(places(everything).values()) == set(TEXTS)
    with acting_as(Principal("anna", Role.READER, ("zoo",))), pytest.raises((UnknownCollectionError, ForbiddenError)):
        services.search.highlight(everything)


def test_over_http(application: Any) -> None:
    with acting_as(OPERATOR):
        client = TestClient(api_of(application.services), base_url="http://127.0.0.1")
        answer = client.post("/api/v1/search", json={"query": "the cat of the harbour", "collection": "*"}).json()
    assert {hit["document"]["collection"] for hit in answer["hits"]} == set(TEXTS)
    assert answer["collection"] == "*"


VECTORS = st.lists(st.tuples(st.floats(-1, 1), st.floats(0.1, 1)), min_size=1, max_size=12)


@given(VECTORS, st.integers(1, 3), st.integers(1, 5))
def test_joined_indexes_give_what_one_index_of_all_points_gives(
    vectors: list[tuple[float, float]], parts: int, limit: int
) -> None:
    whole, split = InMemoryVectorIndex(), InMemoryVectorIndex()
    names = [f"part--{n}" for n in range(parts)]
    for index, name in ((whole, "whole--1"), *((split, name) for name in names)):
        index.create(name, dimension=2)
    points = [
        Point(f"{n:08d}", vector, {"page_content": f"text {n}", "metadata": {"document_id": str(n)}})
        for n, vector in enumerate(vectors)
    ]
    whole.upsert("whole--1", points)
    for n, point in enumerate(points):
        split.upsert(names[n % parts], [point])
    joined, name = JoinedIndexes(split), joined_name(names)
    expected = whole.search("whole--1", [1.0, 0.5], limit=limit)
    found = joined.search(name, [1.0, 0.5], limit=limit)
    assert [(hit.id, hit.score) for hit in found] == [(hit.id, pytest.approx(hit.score)) for hit in expected]
    [dense], words = joined.search_legs(name, [[1.0, 0.5]], "text", limit=limit)
    assert [hit.id for hit in dense] == [hit.id for hit in expected]
    assert len(words) == min(limit, len(points))
    ids = [point.id for point in points]
    assert {point.id for point in joined.retrieve(name, ids)} == set(ids) == joined.payloads(name, ids).keys()
    known, matrix = joined.vectors(name, ids)
    assert (sorted(known), matrix.shape) == (ids, (len(ids), 2))
    assert joined.count(name) == len(ids)
    if parts > 1:
        assert {hit.payload[INDEX_KEY] for hit in found} <= set(names)
