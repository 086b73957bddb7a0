"""`/v1/rerank` of the embedding server, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from embedding_server import embedding_client, listening, watched_application
from langchain_core.documents import Document
from starlette.testclient import TestClient

from app.ports.rerank import RerankPassage
from app.wiring.query_template import QueryTemplate
from app.wiring.rerank_server import ServerReranker
from embedder import DEFAULT_MODEL, Encoder, GircseEmbeddings, GircseReranker, load_encoder
from embedder.text.relevance import INSTRUCTED_TEMPERATURE, VALUE_WEIGHT, value_similarities

KEY = "a-secret"
ASK = {"query": "a river", "documents": ["the sea is salt", "a river runs", "a lake"], "instruction": "Which water?"}


@pytest.fixture(scope="module")
def client(tiny_encoder: Encoder) -> Iterator[TestClient]:
    with embedding_client(tiny_encoder, api_key=KEY) as client:
        yield client


def scores_of(answer: Any) -> list[float]:
    assert answer.status_code == 200, answer.text
    rows = answer.json()["results"]
    assert [row["relevance_score"] for row in rows] == sorted((row["relevance_score"] for row in rows), reverse=True)
    return [row["relevance_score"] for row in sorted(rows, key=lambda row: row["index"])]


def test_scores_are_those_of_the_model(client: TestClient, tiny_encoder: Encoder) -> None:
    query = tiny_encoder.encode_queries([ASK["query"]], instruction="Which water?", steps=1)[0]
    texts = tiny_encoder.encode_documents(ASK["documents"], instruction="Which water?", steps=1)
    answer = client.post("/v1/rerank", json=ASK)
    assert scores_of(answer) == pytest.approx((texts @ query).tolist(), abs=1e-5)
    assert answer.headers["x-gircse-fingerprint"] == tiny_encoder.fingerprint


def test_values_are_read_in_both_spaces(client: TestClient, tiny_encoder: Encoder) -> None:
    asked, values = [ASK["query"], *ASK["documents"]], ["salt sea", "river"]
    seen, names = (tiny_encoder.encode_documents(each, instruction="Which water?", steps=1) for each in (asked, values))
    plain, own = (
        tiny_encoder.encode_documents(each) for each in (asked, values)
    )  # this model has no vector without steps
    said = np.zeros((4, 2), dtype=bool)
    said[[0, 1, 2], [1, 0, 1]] = True
    alike = [
        value_similarities(seen, names, [0, 1], temperature=INSTRUCTED_TEMPERATURE),
        value_similarities(plain, own, [0, 1], said),
    ]
    answer = client.post("/v1/rerank", json={**ASK, "values": values})
    expected = (1 - VALUE_WEIGHT) * seen[1:] @ seen[0] + VALUE_WEIGHT * np.mean(alike, axis=0)
    assert scores_of(answer) == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.fixture(scope="module")
def sentence_client() -> Iterator[TestClient]:
    encoder = load_encoder(DEFAULT_MODEL, dtype="float32")
    with embedding_client(encoder, api_key=KEY, max_inputs=1_010) as client:
        yield client


def test_values_are_read_in_sentences_as_by_the_library(sentence_client: TestClient) -> None:
    texts = ["The airport is in Lyon. Her cat sleeps on the sofa.", "A song won a prize. Nice is in France.", "Tokyo."]
    values, instruction = ["France = Paris", "Japan = Tokyo"], "Identify the country."
    embeddings = GircseEmbeddings(dtype="float32", query_instruction=instruction)
    found = GircseReranker(embeddings=embeddings, values=values).compress_documents(
        [Document(each) for each in texts[1:]], texts[0]
    )
    expected = {each.page_content: each.metadata["relevance_score"] for each in found}
    asked = {"query": texts[0], "documents": texts[1:], "instruction": instruction, "values": values}
    answer = scores_of(sentence_client.post("/v1/rerank", json=asked))
    assert answer == pytest.approx([expected[each] for each in texts[1:]], abs=1e-4)


def test_sentences_may_be_more_than_one_request_holds(sentence_client: TestClient) -> None:
    documents = [f"The fox number {at} sleeps. A bank raised its rates. Nice is in France." for at in range(350)]
    asked = {"query": "a city", "documents": documents, "instruction": "Identify the country.", "values": ["A", "B"]}
    assert len(scores_of(sentence_client.post("/v1/rerank", json=asked))) == len(documents)


def test_values_steps_and_top_count(client: TestClient) -> None:
    plain = scores_of(client.post("/v1/rerank", json=ASK))
    assert scores_of(client.post("/v1/rerank", json={**ASK, "values": ["sea", "river"]})) != pytest.approx(plain)
    assert scores_of(client.post("/v1/rerank", json={**ASK, "steps": 3})) != pytest.approx(plain)
    best = client.post("/v1/rerank", json={**ASK, "top_n": 1, "return_documents": True}).json()["results"]
    assert best == [
        {
            "index": plain.index(max(plain)),
            "relevance_score": pytest.approx(max(plain)),
            "document": {"text": ASK["documents"][plain.index(max(plain))]},
        }
    ]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"documents": []}, "documents"),
        ({"documents": ["a", " "]}, "documents"),
        ({"documents": ["a"] * 1_001}, "documents"),
        ({"documents": [1]}, "documents"),
        ({"documents": ["a\ud800"]}, "documents"),
        ({"documents": [{"title": "a"}]}, "documents"),
        ({"documents": [{"text": None}]}, "documents"),
        ({"documents": [{"title": "a"}], "rank_fields": ["body"]}, "documents"),
        ({"top_n": 1, "top_k": 2}, "top_k"),
        ({"query": ""}, "query"),
        ({"values": ["one"]}, "values"),
        ({"values": ["a"] * 201}, "values"),
        ({"steps": 0}, "steps"),
        ({"steps": 10_000}, "steps"),
        ({"top_n": 0}, "top_n"),
        ({"instruction": "x" * 20_001}, "instruction"),
    ],
)
def test_an_error_names_the_invalid_field(client: TestClient, change: dict[str, Any], param: str) -> None:
    body = json.dumps({**ASK, **change})
    answer = client.post("/v1/rerank", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


def test_it_wants_the_key_and_is_described(client: TestClient) -> None:
    assert client.post("/v1/rerank", json=ASK, headers={"authorization": "Bearer wrong"}).status_code == 401
    assert "/v1/rerank" in client.get("/openapi.json").json()["paths"]


def test_our_own_client_reads_it(tiny_encoder: Encoder) -> None:
    app, _ = watched_application(tiny_encoder, api_key=KEY)
    with listening(app) as port:
        url = f"http://127.0.0.1:{port}/v1/rerank"
        template = QueryTemplate("{instruction} {query}")
        passages = [RerankPassage(str(at), text, "") for at, text in enumerate(ASK["documents"])]
        with closing(ServerReranker(url, api_key=KEY, template=template)) as reranker:
            assert len(reranker.scores("a river", passages, instruction="")) == 3
