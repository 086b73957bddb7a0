"""Rerank routes of both servers as the clients of Cohere, Jina, Voyage, vLLM and TEI call them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from typing import Any

import pytest
from api_application import api_of
from embedding_server import embedding_client
from fastapi.testclient import TestClient

from embedder import Encoder

TEXTS = ["the sea is salt", "a river runs", "a lake"]
OBJECTS = [{"text": text, "page": at} for at, text in enumerate(TEXTS)]
NESTED = reduce(lambda inner, _: {"inner": inner}, range(300), {})
IGNORED = "x-gircse-ignored-fields"


@pytest.fixture(scope="module")
def embedding_server(tiny_encoder: Encoder) -> Iterator[TestClient]:
    with embedding_client(tiny_encoder) as client:
        yield client


@pytest.fixture(params=["embedding server", "application"])
def client(request: pytest.FixtureRequest, embedding_server: TestClient, lasting_services: Any) -> TestClient:
    return embedding_server if request.param == "embedding server" else TestClient(api_of(lasting_services.services))


def ask(client: TestClient, path: str, **body: Any) -> Any:
    answer = client.post(path, json={"query": "a river"} | body)
    assert answer.status_code == 200, answer.text
    return answer


def post(client: TestClient, path: str, body: dict[str, Any]) -> Any:
    """Unlike httpx, sends lone surrogates, as escapes."""
    headers = {"content-type": "application/json"}
    return client.post(path, content=json.dumps({"query": "a"} | body), headers=headers)


def test_cohere_v2_and_langchain(client: TestClient) -> None:
    body = {"model": "rerank-v3.5", "documents": TEXTS, "top_n": 2, "max_tokens_per_doc": 100, "priority": 1}
    answer = ask(client, "/v2/rerank", **body)
    found = answer.json()
    scores = [row["relevance_score"] for row in found["results"]]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 2
    assert all(set(row) == {"index", "relevance_score"} for row in found["results"])
    assert found["meta"]["api_version"] == {"version": "2"}
    assert found["meta"]["billed_units"] == {"search_units": 1}
    assert found["meta"]["tokens"]["input_tokens"] == found["usage"]["total_tokens"] > len(TEXTS)
    assert found["model"] not in ("", "rerank-v3.5")
    assert found["id"] != ask(client, "/v2/rerank", **body).json()["id"]
    assert answer.headers[IGNORED] == "max_tokens_per_doc, priority"


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
def test_objects_rank_as_their_texts_and_come_back_whole(client: TestClient, path: str) -> None:
    as_texts = ask(client, path, documents=TEXTS, return_documents=True).json()["results"]
    as_objects = ask(client, path, documents=OBJECTS, return_documents=True).json()["results"]
    assert [row["relevance_score"] for row in as_objects] == [row["relevance_score"] for row in as_texts]
    for text_row, object_row in zip(as_texts, as_objects, strict=True):
        assert text_row["document"] == {"text": TEXTS[text_row["index"]]}
        assert object_row["document"] == OBJECTS[object_row["index"]]


def test_rank_fields_choose_what_is_ranked(client: TestClient) -> None:
    documents = [{"title": "Water", "body": text, "text": "something else"} for text in TEXTS]
    chosen = ask(client, "/v1/rerank", documents=documents, rank_fields=["title", "body"], max_chunks_per_doc=2)
    joined = ask(client, "/v1/rerank", documents=[f"Water\n{text}" for text in TEXTS])
    assert chosen.json()["results"] == joined.json()["results"]
    assert chosen.headers[IGNORED] == "max_chunks_per_doc"
    assert IGNORED not in joined.headers


def test_top_k_is_top_n(client: TestClient) -> None:
    by_k = ask(client, "/v1/rerank", documents=TEXTS, top_k=1, truncation=True).json()["results"]
    assert by_k == ask(client, "/v1/rerank", documents=TEXTS, top_n=1, top_k=None).json()["results"]
    assert len(by_k) == 1


def test_text_embeddings_inference(client: TestClient) -> None:
    body = {"texts": TEXTS, "return_text": True, "truncate": True, "truncation_direction": "Right"}
    answer = ask(client, "/rerank", **body, raw_scores=True)
    rows = answer.json()
    expected = ask(client, "/v1/rerank", documents=TEXTS).json()["results"]
    assert [(row["index"], row["score"]) for row in rows] == [
        (row["index"], row["relevance_score"]) for row in expected
    ]
    assert [row["text"] for row in rows] == [TEXTS[row["index"]] for row in rows]
    assert answer.headers[IGNORED] == "truncation_direction"
    mapped = ask(client, "/rerank", texts=TEXTS).json()
    assert [row["score"] for row in mapped] == pytest.approx([(1 + row["score"]) / 2 for row in rows])
    assert all(set(row) == {"index", "score"} for row in mapped)


def test_vllm_at_the_root(client: TestClient) -> None:
    answer = ask(client, "/rerank", documents=TEXTS, model="bge-reranker", truncate_prompt_tokens=-1)
    found = answer.json()
    assert found["results"] == ask(client, "/v1/rerank", documents=TEXTS).json()["results"]
    assert found["usage"]["total_tokens"] > 0
    assert answer.headers[IGNORED] == "truncate_prompt_tokens"


def test_unknown_fields_are_ignored_and_named(client: TestClient) -> None:
    answer = ask(client, "/v1/rerank", documents=TEXTS, **{"tää\n": 1, "z" * 100: 2})
    assert answer.headers[IGNORED] == f"t%C3%A4%C3%A4%0A, {'z' * 64}"


def test_long_texts_are_refused_with_truncation_false(embedding_server: TestClient, lasting_services: Any) -> None:
    long = ["word " * 1_000]
    refused = embedding_server.post("/v1/rerank", json={"query": "a", "documents": long, "truncation": False})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "documents")
    assert "tokens" in refused.json()["error"]["message"]
    refused = embedding_server.post("/rerank", json={"query": "a", "texts": long, "truncate": False})
    assert (refused.status_code, refused.json()["error_type"]) == (422, "validation")
    ask(embedding_server, "/rerank", texts=long)
    application = TestClient(api_of(lasting_services.services))
    answer = ask(application, "/v2/rerank", documents=TEXTS, truncation=False, steps=2)
    assert answer.headers[IGNORED] == "steps, truncation"
    assert ask(application, "/rerank", texts=TEXTS, truncate=False).headers[IGNORED] == "truncate"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"documents": []}, "documents"),
        ({"documents": ["a", " "]}, "document 1 is empty"),
        ({"documents": "a"}, "give a list of texts or objects, not str"),
        ({"documents": [3]}, "document 0 is int"),
        ({"documents": [{"title": "a"}]}, "no field `text`"),
        ({"documents": [{"text": ["a"]}]}, "no field `text` with a text"),
        ({"documents": [{"title": "a"}], "rank_fields": ["body"]}, "none of the fields body"),
        ({"documents": ["a"] * 1_001}, "1000"),
        ({"documents": TEXTS, "query": " "}, "the query is empty"),
        ({"documents": TEXTS, "top_n": 1, "top_k": 2}, "top_n is 1 and top_k is 2"),
        ({"documents": TEXTS, "values": ["one"]}, "value"),
        ({"documents": ["a", {"text": "a", "note": "\ud800"}]}, "document 1 cannot be written as JSON"),
        ({"documents": [{"text": "a", "note": NESTED}]}, "document 0 cannot be written as JSON"),
    ],
)
def test_invalid_documents_are_refused_by_every_path(client: TestClient, body: dict[str, Any], said: str) -> None:
    for path in ("/v1/rerank", "/v2/rerank", "/rerank"):
        answer = post(client, path, body)
        assert answer.status_code == (422 if path == "/rerank" else 400), answer.text
        error = answer.json()
        if path == "/rerank":
            assert set(error) == {"error", "error_type"}
            assert said in error["error"]
        else:
            assert said in error["error"]["message"]
            assert "Value error" not in error["error"]["message"]
        if path == "/v2/rerank":
            assert error["message"] == error["error"]["message"]


@pytest.mark.parametrize(("form", "field"), [("documents", "query"), ("texts", "query"), ("texts", "values.0")])
def test_errors_at_the_root_name_the_field_alone(client: TestClient, form: str, field: str) -> None:
    wrong = {"query": 1} if field == "query" else {"values": [1]}
    answer = client.post("/rerank", json={"query": "a", form: TEXTS} | wrong)
    assert answer.json()["error"].startswith(f"{field}: ")


def test_an_object_without_a_string_as_text_comes_back_with_the_ranked_text(client: TestClient) -> None:
    documents = [{"title": "a river", "text": None}, {"title": "a lake", "text": {"pages": 3}}]
    found = ask(client, "/v1/rerank", documents=documents, rank_fields=["title"], return_documents=True)
    assert {row["document"]["text"] for row in found.json()["results"]} == {"a river", "a lake"}


def test_a_deep_object_that_is_accepted_comes_back(client: TestClient) -> None:
    for depth in range(240, 300):
        note = reduce(lambda inner, _: {"inner": inner}, range(depth), {})
        for path in ("/v1/rerank", "/rerank"):
            answer = post(client, path, {"documents": [{"text": "a", "note": note}], "return_documents": True})
            assert answer.status_code in (200, 400, 422), depth


def test_invalid_texts_are_refused_in_the_format_of_tei(client: TestClient) -> None:
    for texts in ([], [""], ["a", 1], ["a"] * 1_001):
        answer = client.post("/rerank", json={"query": "a", "texts": texts})
        assert (answer.status_code, answer.json()["error_type"]) == (422, "validation")


def test_the_names_of_ignored_fields_stay_a_short_header(client: TestClient) -> None:
    fields = {f"{at:02}{'界' * 100}": 1 for at in range(40)}
    answer = post(client, "/v1/rerank", {"documents": TEXTS, **fields})
    assert answer.status_code == 200
    assert answer.headers[IGNORED].startswith("00%E7%95%8C")
    assert 1_000 < len(answer.headers[IGNORED]) < 1_400


@pytest.mark.parametrize(("path", "status"), [("/v1/rerank", 400), ("/v2/rerank", 400), ("/rerank", 422)])
def test_a_body_that_is_not_unicode_gets_the_documented_status(client: TestClient, path: str, status: int) -> None:
    answer = client.post(path, content=b"\xffE", headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert str(status) in client.get("/openapi.json").json()["paths"][path]["post"]["responses"]
    assert "error" in answer.json()
