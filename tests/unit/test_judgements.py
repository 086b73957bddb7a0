"""What may be kept as a lens or a judgement, and a lens in a search over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient

from app.errors import InputError
from app.search.judgements import MAX_NAME_CHARACTERS, new_judgement, new_lens
from app.search.lenses import STARTERS
from app.types.documents import Lens


@pytest.fixture
def client(toy_services: Any) -> TestClient:
    toy_services.add("my card is late")
    return TestClient(api_of(toy_services.services), raise_server_exceptions=False)


def test_a_lens_is_stripped_of_the_space_around_it() -> None:
    assert new_lens(" same feeling ", " Identify the feeling\n") == Lens("same feeling", "Identify the feeling")


@pytest.mark.parametrize(
    "name", ["", "  ", "two\nlines", "a\x07bell", "\u202eright to left", "x" * (MAX_NAME_CHARACTERS + 1), "nul\0"]
)
def test_unusable_names_of_lenses_are_refused(name: str) -> None:
    with pytest.raises(InputError):
        new_lens(name, "Identify the feeling")


def test_a_lens_without_an_instruction_is_refused() -> None:
    with pytest.raises(InputError, match="no query instruction"):
        new_lens("empty", "  ")


@pytest.mark.parametrize(("query", "grade"), [("", 1), (" ", 1), ("card", -1), ("card", 4)])
def test_unusable_judgements_are_refused(query: str, grade: int) -> None:
    with pytest.raises(InputError):
        new_judgement("d", query=query, instruction="", grade=grade)


def test_a_search_through_a_lens_is_one_with_its_instruction(client: TestClient) -> None:
    saved = {"name": "a/b feeling", "query_instruction": "Identify the feeling"}
    assert client.post("/api/v1/lenses", json=saved).status_code == 200
    names = [lens["name"] for lens in client.get("/api/v1/lenses").json()]
    assert names == ["a/b feeling", *(starter.name for starter in STARTERS)]
    assert client.get("/api/v1/lenses/a/b feeling").json()["query_instruction"] == "Identify the feeling"
    question = {"query": "card", "collection": "library"}
    through = client.post("/api/v1/search", json={**question, "lens": "a/b feeling"}).json()
    plain = client.post("/api/v1/search", json={**question, "instruction": "Identify the feeling"}).json()
    assert through["instruction"] == "Identify the feeling"
    assert through["hits"] == plain["hits"]
    both = client.post("/api/v1/search", json={**question, "lens": "a/b feeling", "instruction": "x"})
    assert both.status_code == 422
    assert "not both" in both.json()["detail"]
    assert client.delete("/api/v1/lenses/a/b feeling").status_code == 204
    assert client.post("/api/v1/search", json={**question, "lens": "a/b feeling"}).status_code == 404


def test_judgements_are_given_listed_and_taken_back(client: TestClient) -> None:
    document = client.get("/api/v1/documents").json()[0]["id"]
    said = {"document_id": document, "query": "card", "instruction": "Identify the feeling"}
    for grade in (1, 3):
        assert client.post("/api/v1/judgements", json={**said, "grade": grade}).json()["judged_by"] == "local"
    listed = client.get("/api/v1/judgements", params={"collection": "library"}).json()
    assert [(each["document_id"], each["grade"]) for each in listed] == [(document, 3)]
    assert client.post("/api/v1/judgements", json={**said, "grade": 9}).status_code == 422
    assert client.post("/api/v1/judgements", json={**said, "document_id": "no", "grade": 1}).status_code == 404
    assert client.get("/api/v1/judgements", params={"collection": "elsewhere"}).status_code == 404
    assert client.delete("/api/v1/judgements", params=said).status_code == 204
    assert client.delete("/api/v1/judgements", params=said).status_code == 404
