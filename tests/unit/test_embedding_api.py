"""The embedding server over HTTP: OpenAI's shape of answers and errors, its own routes, the key, and bodies."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from embedding_server import WatchedServer, listening, watched_application
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from patience import wait_until
from starlette.testclient import TestClient

from embedder import Encoder, load_model_tokenizer
from embedder.engine.limits import Limits
from embedder.server.application import create_application
from embedder.server.protocol import InputType
from embedder.server.serving import ListenError, listen

KEY = "a-secret"


def application(encoder: Encoder, model: str, **options: Any) -> tuple[FastAPI, WatchedServer]:
    return watched_application(encoder, tokenizer=load_model_tokenizer(model).to_str(), **options)


@pytest.fixture(scope="module")
def client(tiny_encoder: Encoder, tiny_model: str) -> Iterator[TestClient]:
    app, _ = application(tiny_encoder, tiny_model, max_body_mb=0.5)
    with TestClient(app) as client:
        yield client


@pytest.fixture(scope="module")
def name(tiny_encoder: Encoder) -> str:
    return tiny_encoder.name


def vectors_of(answer: httpx.Response) -> np.ndarray:
    assert answer.status_code == 200, answer.text
    rows = [each["embedding"] for each in answer.json()["data"]]
    if isinstance(rows[0], str):
        return np.stack([np.frombuffer(base64.b64decode(row), dtype="<f4") for row in rows])
    return np.array(rows, dtype=np.float32)


def error_of(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error


def test_answers_are_as_openai_s(client: TestClient, tiny_encoder: Encoder, name: str) -> None:
    texts = ["a river runs", "the sea"]
    answer = client.post("/v1/embeddings", json={"model": name, "input": texts})
    body = answer.json()
    assert (body["object"], body["model"]) == ("list", name)
    assert [(each["object"], each["index"]) for each in body["data"]] == [("embedding", 0), ("embedding", 1)]
    read = sum(len(each.ids) for each in tiny_encoder.read_prompts(texts, ""))
    assert body["usage"] == {"prompt_tokens": read, "total_tokens": read}
    assert answer.headers["x-gircse-fingerprint"] == tiny_encoder.fingerprint
    expected = tiny_encoder.encode_documents(texts)
    np.testing.assert_allclose(vectors_of(answer), expected, atol=1e-6)
    as_base64 = client.post("/v1/embeddings", json={"model": name, "input": texts, "encoding_format": "base64"})
    np.testing.assert_allclose(vectors_of(as_base64), expected, atol=1e-6)
    one = client.post("/v1/embeddings", json={"model": name, "input": texts[1], "user": "somebody"})
    np.testing.assert_allclose(vectors_of(one), expected[1:], atol=1e-6)


def test_role_instruction_and_steps_can_be_given(client: TestClient, tiny_encoder: Encoder, name: str) -> None:
    question = {"model": name, "input": "a river", "input_type": "query", "instruction": "Look at it", "steps": 2}
    expected = tiny_encoder.encode_queries(["a river"], instruction="Look at it", steps=2)
    np.testing.assert_allclose(vectors_of(client.post("/v1/embeddings", json=question)), expected, atol=1e-6)


def test_the_operator_chooses_what_texts_are(tiny_encoder: Encoder, tiny_model: str, name: str) -> None:
    server = WatchedServer(tiny_encoder, Limits())
    app = create_application(server.engine, tokenizer=lambda: "", input_type=InputType.QUERY)
    with TestClient(app) as client:
        found = vectors_of(client.post("/v1/embeddings", json={"model": name, "input": "a river"}))
    np.testing.assert_allclose(found, tiny_encoder.encode_queries(["a river"]), atol=1e-6)


def test_shorter_vectors_are_normalised_again(client: TestClient, tiny_encoder: Encoder, name: str) -> None:
    found = vectors_of(client.post("/v1/embeddings", json={"model": name, "input": "a river", "dimensions": 8}))
    whole = tiny_encoder.encode_documents(["a river"])[:, :8]
    np.testing.assert_allclose(found, whole / np.linalg.norm(whole), atol=1e-6)
    error = error_of(client.post("/v1/embeddings", json={"model": name, "input": "a", "dimensions": 33}), 400)
    assert error["param"] == "dimensions"
    assert "32" in error["message"]


def test_models_are_listed(client: TestClient, name: str) -> None:
    (row,) = client.get("/v1/models").json()["data"]
    assert (row["id"], row["object"], row["owned_by"]) == (name, "model", "gircse-search")
    assert client.get(f"/v1/models/{name}").json() == row
    assert error_of(client.get("/v1/models/gpt-4"), 404)["code"] == "model_not_found"
    assert name in error_of(client.post("/v1/embeddings", json={"model": "ada", "input": "a"}), 404)["message"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"input": [1, 2, 3]}, "check_embedding_ctx_length=False"),
        ({"input": [[1, 2], [3]]}, "check_embedding_ctx_length=False"),
        ({"input": ""}, "Text 0 of 1 is empty"),
        ({"input": ["a", "\n"]}, "Text 1 of 2 is empty"),
        ({"input": []}, "0 texts"),
        ({"input": ["a", None]}, "entry 1 of 2 is NoneType"),
        ({"input": [True]}, "entry 0 of 1 is bool"),
        ({"input": {"text": "a"}}, "not dict"),
        ({"input": "\ud800"}, "lone surrogate"),
        ({"input": "a", "dimensions": 0}, "greater than or equal to 1"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "a", "input_type": "passage"}, "input_type"),
        ({"input": "a", "steps": 1000}, "steps is 1000"),
        ({"input": "a", "instruction": "word " * 4000}, "instruction"),
        ({"input": "word " * 1000, "truncate": False}, "Split it"),
    ],
)
def test_what_cannot_be_used_is_named(client: TestClient, name: str, wrong: dict[str, Any], said: str) -> None:
    content = json.dumps({"model": name} | wrong)
    answer = client.post("/v1/embeddings", content=content, headers={"content-type": "application/json"})
    error = error_of(answer, 400)
    assert said in error["message"]
    assert error["type"] == "invalid_request_error"


def test_bodies_that_are_none(client: TestClient) -> None:
    headers = {"content-type": "application/json"}
    assert "JSON" in error_of(client.post("/v1/embeddings", content=b"{", headers=headers), 400)["message"]
    assert "application/json" in error_of(client.post("/v1/embeddings", content=b"{}"), 400)["message"]
    error_of(client.post("/v1/embeddings", content=b'{"input": "\xff"}', headers=headers), 400)
    large = error_of(client.post("/v1/embeddings", content=b" " * 600_000, headers=headers), 413)
    assert "600000 bytes" in large["message"]
    parts = (b" " * 100_000 for _ in range(6))  # of unknown length
    assert "500000" in error_of(client.post("/v1/embeddings", content=parts, headers=headers), 413)["message"]
    error_of(client.get("/v1/embeddings"), 405)
    error_of(client.get("/v1/nothing"), 404)
    assert client.get("/nothing").headers["content-type"] == "application/problem+json"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_BODIES = st.fixed_dictionaries(
    {},
    optional={
        "model": st.just("MODEL") | _JSON,
        "input": st.text(max_size=40) | st.lists(st.text(max_size=20), max_size=4) | _JSON,
        "encoding_format": st.sampled_from(["float", "base64"]) | _JSON,
        "dimensions": st.integers(-2, 40) | _JSON,
        "input_type": st.sampled_from(["query", "document"]) | _JSON,
        "instruction": st.text(max_size=20) | _JSON,
        "steps": st.integers(-2, 70) | _JSON,
        "user": _JSON,
        "other": _JSON,
    },
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=_BODIES | _JSON, is_named=st.booleans())
def test_any_body_gets_vectors_or_a_reason(client: TestClient, name: str, body: Any, is_named: bool) -> None:
    if isinstance(body, dict) and (is_named or body.get("model") == "MODEL"):
        body["model"] = name
    content = json.dumps(body)
    answer = client.post("/v1/embeddings", content=content, headers={"content-type": "application/json"})
    if answer.status_code != 200:
        assert answer.status_code in (400, 404)
        error_of(answer, answer.status_code)
        return
    vectors = vectors_of(answer)
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    assert vectors.shape == (len(texts), body.get("dimensions") or 32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60))
def test_any_bytes_get_a_reason(client: TestClient, content: bytes) -> None:
    answer = client.post("/v1/embeddings", content=content, headers={"content-type": "application/json"})
    error_of(answer, 400)


def test_refinement_comes_whole_or_a_step_at_a_time(client: TestClient, tiny_encoder: Encoder) -> None:
    question = {"text": "a river", "steps": 3, "token_bias": {"river": 2.0}}
    whole = client.post("/api/v1/refine", json=question)
    expected = tiny_encoder.refine("a river", steps=3, token_bias={"river": 2.0})
    np.testing.assert_allclose(whole.json()["vector"], expected.vector, atol=1e-6)
    assert (whole.json()["steps"], whole.json()["instruction"]) == (3, "")
    for ask in ({"json": question | {"stream": True}}, {"json": question, "headers": {"accept": "text/event-stream"}}):
        answer = client.post("/api/v1/refine", **ask)
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [event.split("\n") for event in answer.text.strip().split("\n\n")]
        assert [event[0] for event in events] == [*["event: step"] * 3, "event: result"]
        steps = [json.loads(event[1].removeprefix("data: ")) for event in events]
        assert steps[-1] == whole.json()
        assert [each["tokens"] for each in steps[:3]] == [each["tokens"] for each in whole.json()["refinement"]]


@pytest.mark.parametrize("stream", [False, True])
def test_refinement_that_is_refused_is_a_problem(client: TestClient, stream: bool) -> None:
    for wrong, said in [
        ({"text": " "}, "empty"),
        ({"text": "a", "steps": 0}, "steps"),
        ({"text": "a", "token_bias": {"": 1.0}}, "empty word"),
        ({"text": "a", "token_bias": {"\ud800": 1.0}}, "lone surrogate"),
        ({"text": "a", "token_bias": {"b": 11.0}}, "token_bias"),
        ({"text": "a", "tolerance": 3}, "tolerance"),
    ]:
        body = json.dumps(wrong | {"stream": stream})  # in ASCII, unlike httpx's
        answer = client.post("/api/v1/refine", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert said in answer.json()["detail"]


def test_clients_get_all_that_they_must_know(client: TestClient, tiny_encoder: Encoder, tiny_model: str) -> None:
    facts = client.get("/api/v1/model").json()
    assert facts["fingerprint"] == tiny_encoder.fingerprint
    assert (facts["dimension"], facts["max_steps"], facts["max_length"]) == (32, tiny_encoder.max_steps, 448)
    assert client.get("/api/v1/tokenizer").text == load_model_tokenizer(tiny_model).to_str()


def test_the_application_gets_vectors_in_binary(client: TestClient, tiny_encoder: Encoder) -> None:
    question = {"texts": ["a river", "the sea"], "input_type": "document", "instruction": "", "steps": 2}
    answer = client.post("/api/v1/embed", json=question)
    assert answer.headers["x-gircse-shape"] == "2,32"
    found = np.frombuffer(answer.content, dtype="<f4").reshape(2, 32)
    np.testing.assert_allclose(found, tiny_encoder.encode_documents(["a river", "the sea"], steps=2), atol=1e-6)
    assert client.post("/api/v1/embed", json=question | {"texts": []}).status_code == 422


def test_the_page_about_the_server_takes_nothing_from_elsewhere(client: TestClient) -> None:
    answer = client.get("/docs")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.findall(r"<script|https?://|src=|<link|@import|url\(", answer.text)
    for path in client.get("/openapi.json").json()["paths"]:
        assert f"<code>{html.escape(path)}</code>" in answer.text
    assert client.get("/redoc").status_code == client.get("/docs/oauth2-redirect").status_code == 404


def test_a_server_with_a_key_shows_only_its_health(tiny_encoder: Encoder, tiny_model: str, name: str) -> None:
    app, _ = application(tiny_encoder, tiny_model, api_key=KEY)
    with TestClient(app) as client:
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
        for path in ("/v1/models", "/v1/embeddings", "/api/v1/model", "/metrics", "/docs", "/openapi.json", "/nothing"):
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": KEY}, {"x-api-key": KEY}):
                assert client.get(path, headers=headers).status_code == 401, path
        refused = client.get(f"/v1/models?key={KEY}")
        assert error_of(refused, 401)["code"] == "invalid_api_key"
        assert refused.headers["www-authenticate"] == "Bearer"
        for kind in ("Bearer", "bearer"):
            assert client.get("/v1/models", headers={"authorization": f"{kind} {KEY}"}).status_code == 200
        assert client.get("/v1/models", headers={"authorization": "Bearer schl\u00fcssel".encode()}).status_code == 401


def test_no_server_without_a_key_is_open_to_the_network() -> None:
    with pytest.raises(ListenError, match=r"GIRCSE_EMBEDDER_API_KEY=.* gircse embedder --host 0\.0\.0\.0"):
        listen("0.0.0.0", 0, is_open=True, api_key=None, command="gircse embedder")
    with pytest.raises(ListenError, match="a key of 31 characters, which others can guess"):
        listen("0.0.0.0", 0, is_open=True, api_key="k" * 31, command="gircse embedder")
    listen("0.0.0.0", 0, is_open=True, api_key="k" * 32, command="gircse embedder").close()
    listen("127.0.0.1", 0, is_open=False, api_key=KEY, command="gircse embedder").close()


def test_metrics_tell_what_went_on(tiny_encoder: Encoder, tiny_model: str, name: str) -> None:
    app, _ = application(tiny_encoder, tiny_model)
    with TestClient(app) as client:
        client.post("/v1/embeddings", json={"model": name, "input": ["a", "b"], "steps": 2})
        client.post("/v1/embeddings", json={"model": name, "input": ["a"], "steps": 2})
        client.post("/v1/embeddings", json={"model": name, "input": ["a"], "steps": 99})
        told = client.get("/metrics").text
    for line in (
        'gircse_embedder_batch_texts_sum{lane="query"} 2.0',
        'gircse_embedder_steps_total{lane="query"} 4.0',
        "gircse_embedder_cache_hits_total 1.0",
        'gircse_embedder_refused_total{reason="InvalidRequestError"} 1.0',
        'gircse_embedder_seconds_count{lane="query",stage="compute"} 2.0',
        'gircse_embedder_queue_texts{lane="document"} 0.0',
        "gircse_embedder_alive 1.0",
    ):
        assert line in told


def post_head(length: int) -> bytes:
    headers = f"host: x\r\ncontent-type: application/json\r\ncontent-length: {length}"
    return f"POST /v1/embeddings HTTP/1.1\r\n{headers}\r\n\r\n".encode()


def test_a_client_that_goes_has_nothing_computed(tiny_encoder: Encoder, tiny_model: str, name: str) -> None:
    app, server = application(tiny_encoder, tiny_model)
    with listening(app) as port:
        server.encoder.unblocked.clear()
        body = json.dumps({"model": name, "input": "held up"}).encode()
        with socket.create_connection(("127.0.0.1", port)) as first:
            first.sendall(post_head(len(body)) + body)
            wait_until(lambda: len(server.encoder.batches) == 1)
            gone = json.dumps({"model": name, "input": "of one that goes"}).encode()
            with socket.create_connection(("127.0.0.1", port)) as second:
                second.sendall(post_head(len(gone)) + gone)
                wait_until(lambda: server.value("queue_texts", lane="query") == 1)
            wait_until(lambda: server.value("queue_texts", lane="query") == 0)
            server.encoder.unblocked.set()
            assert first.recv(12) == b"HTTP/1.1 200"
    assert server.encoder.computed == [server.encoder.ids("held up")]


def test_a_body_that_never_comes_is_given_up(tiny_encoder: Encoder, tiny_model: str) -> None:
    app, _ = application(tiny_encoder, tiny_model, slow_client_s=0.1)
    with listening(app) as port, socket.create_connection(("127.0.0.1", port)) as slow:
        slow.settimeout(20)
        slow.sendall(post_head(1000) + b"{")
        assert slow.recv(12) == b"HTTP/1.1 408"


async def test_errors_of_many_requests_are_their_own(tiny_encoder: Encoder, tiny_model: str, name: str) -> None:
    app, _ = application(tiny_encoder, tiny_model)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        inputs = [["a"] * (1 + at % 3) + [" "] * (at % 2) for at in range(40)]
        asked = [client.post("/v1/embeddings", json={"model": name, "input": each}) for each in inputs]
        answers = await asyncio.gather(*asked)
    for at, answer in enumerate(answers):
        assert answer.status_code == (400 if at % 2 else 200)


class TestTextEmbeddingsInference:
    def test_vectors_come_as_a_list(self, client: TestClient, tiny_encoder: Encoder) -> None:
        texts = ["a river runs", "the sea"]
        answer = client.post("/embed", json={"inputs": texts, "normalize": True, "truncate": True})
        assert answer.status_code == 200, answer.text
        np.testing.assert_allclose(answer.json(), tiny_encoder.encode_documents(texts), atol=1e-6)
        assert answer.headers["x-gircse-fingerprint"] == tiny_encoder.fingerprint
        assert "x-gircse-ignored-fields" not in answer.headers
        one = client.post("/embed", json={"inputs": texts[0]})
        np.testing.assert_allclose(one.json(), answer.json()[:1], atol=1e-6)

    def test_role_instruction_steps_and_dimensions_can_be_given(
        self, client: TestClient, tiny_encoder: Encoder
    ) -> None:
        question = {"inputs": "a river", "prompt_name": "query", "instruction": "Look at it", "steps": 2}
        expected = tiny_encoder.encode_queries(["a river"], instruction="Look at it", steps=2)
        np.testing.assert_allclose(client.post("/embed", json=question).json(), expected, atol=1e-6)
        short = expected[:, :8] / np.linalg.norm(expected[:, :8])
        answer = client.post("/embed", json=question | {"dimensions": 8})
        np.testing.assert_allclose(answer.json(), short, atol=1e-6)

    def test_fields_without_effect_are_named(self, client: TestClient) -> None:
        body = {"inputs": "a river", "normalize": False, "truncation_direction": "Right", "nothing": 1}
        answer = client.post("/embed", json=body)
        assert answer.headers["x-gircse-ignored-fields"] == "normalize, nothing, truncation_direction"

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ({"inputs": []}, "inputs holds 0 texts"),
            ({"inputs": ["a", " "]}, "Text 1 of 2 is empty"),
            ({"inputs": [1, 2]}, "inputs holds token ids"),
            ({"inputs": "a", "dimensions": 100_000}, "dimensions is 100000"),
            ({"inputs": "a", "prompt_name": "passage"}, "prompt_name"),
            ({"inputs": "word " * 3_000, "truncate": False}, "tokens"),
            ({}, "inputs"),
        ],
    )
    def test_errors_are_as_tei_s(self, client: TestClient, body: dict[str, Any], said: str) -> None:
        answer = client.post("/embed", json=body)
        assert (answer.status_code, answer.json()["error_type"]) == (422, "validation")
        assert said in answer.json()["error"]


def test_paths_behind_the_key_describe_its_refusal(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    without = {path for path, methods in paths.items() for each in methods.values() if "401" not in each["responses"]}
    assert without == {"/healthz", "/readyz"}


def test_generated_clients_get_a_short_name_for_each_route(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    names = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(set(names)) == len(names), names
    assert {"embeddings", "embed_as_tei", "rerank", "refine"} <= set(names)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)
