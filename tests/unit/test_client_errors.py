"""Errors below /v1, /v2 and at /rerank, of both servers, as the clients of others read them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from access_application import ADMIN_SECRET, open_controlled_web
from embedding_server import WatchedServer, watched_application
from patience import wait_until
from served import served

from app.access.accounts import Accounts
from app.testing import ToyEmbedder
from app.types.access import Role
from embedder import Encoder
from embedder.server.unknown_paths import unknown_path

KEY = "a-secret"
QUERY_INPUTS = 4
FOLDERS = ("/v1/", "/v2/", "/api/v1/", "/v1", "/v2", "/api")


@pytest.fixture(scope="module")
def embedding_server(tiny_encoder: Encoder) -> Iterator[tuple[str, str, WatchedServer]]:
    """Its address, its key, and the engine."""
    app, server = watched_application(tiny_encoder, api_key=KEY, max_body_mb=0.01, query_inputs=QUERY_INPUTS)
    with served(app) as url:
        yield url, KEY, server


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory, toy_services_class: Any) -> Iterator[tuple[str, str]]:
    """With pages and access control. Its embedding server does not answer."""
    with ExitStack() as opened:
        toy = toy_services_class(tmp_path_factory.mktemp("toy"), opened, embedder=ToyEmbedder())
        key = reader_key(toy)
        yield opened.enter_context(served(opened.enter_context(open_controlled_web(toy)))), key


def reader_key(application: Any) -> str:
    accounts = Accounts(application.services.catalog.access, admin_secret=ADMIN_SECRET)
    accounts.add_user("anna", role=Role.READER, collections=["*"], password="a long password")
    _, key = accounts.add_key("anna", collections=["*"])
    return key


@pytest.fixture(params=["embedding server", "application"])
def server(request: pytest.FixtureRequest, embedding_server: Any, application: Any) -> tuple[str, str]:
    return embedding_server[:2] if request.param == "embedding server" else application


def openai_client(server: tuple[str, str], *, key: str | None = None) -> Any:
    from openai import OpenAI  # two seconds in every process that collects it

    return OpenAI(base_url=f"{server[0]}/v1", api_key=key or server[1], max_retries=0)


def test_unknown_paths_are_not_found_errors(server: tuple[str, str]) -> None:
    from openai import NotFoundError

    client = openai_client(server)
    for call in (
        lambda: client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello"}]),
        lambda: client.files.list(),
    ):
        with pytest.raises(NotFoundError) as raised:
            call()
        assert raised.value.code == "unknown_url"
    with pytest.raises(NotFoundError) as raised:
        client.get("/embedding", cast_to=object)
    assert (raised.value.type, raised.value.code) == ("invalid_request_error", "unknown_url")
    message = raised.value.body["message"]
    assert "no GET /v1/embedding." in message
    assert "POST /v1/embeddings" in message
    assert "/docs" in message


def test_wrong_methods_name_the_allowed_ones(server: tuple[str, str]) -> None:
    from openai import APIStatusError

    with pytest.raises(APIStatusError) as raised:
        openai_client(server).get("/embeddings", cast_to=object)
    assert (raised.value.status_code, raised.value.code) == (405, "method_not_supported")
    assert raised.value.response.headers["allow"] == "POST"
    assert "use POST" in raised.value.message


def test_a_wrong_key_is_an_authentication_error(server: tuple[str, str]) -> None:
    from openai import AuthenticationError

    for call in (lambda client: client.models.list(), lambda client: client.get("/nothing", cast_to=object)):
        with pytest.raises(AuthenticationError) as raised:
            call(openai_client(server, key="wrong"))
        assert (raised.value.type, raised.value.code) == ("invalid_request_error", "invalid_api_key")


def test_invalid_input_is_a_bad_request_that_names_the_field(server: tuple[str, str], embedding_server: Any) -> None:
    from openai import BadRequestError

    client = openai_client(server)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"input": 3}, "input"),
        ({"input": "a", "encoding_format": "x"}, "encoding_format"),
    ]
    for body, param in bad:
        with pytest.raises(BadRequestError) as raised:
            client.post("/embeddings", body={"model": "m"} | body, cast_to=object)
        assert (raised.value.type, raised.value.param) == ("invalid_request_error", param)
    with pytest.raises(BadRequestError) as raised:
        client.post("/rerank", body={"query": "a", "documents": []}, cast_to=object)
    assert raised.value.param == "documents"
    assert raised.value.body["message"].startswith("documents: ")
    answer = httpx.post(
        f"{server[0]}/v1/rerank",
        content=b'{"query": "\xff"}',
        headers={"authorization": f"Bearer {server[1]}", "content-type": "application/json"},
    )
    assert answer.status_code == 400
    assert "UTF-8" in answer.json()["error"]["message"]


def test_an_unknown_model_is_not_found(embedding_server: Any) -> None:
    from openai import NotFoundError

    client = openai_client(embedding_server[:2])
    for call in (lambda: client.models.retrieve("gpt-4"), lambda: client.embeddings.create(model="ada", input="a")):
        with pytest.raises(NotFoundError) as raised:
            call()
        assert raised.value.code == "model_not_found"


def test_a_request_over_the_size_limit_is_413(embedding_server: Any) -> None:
    from openai import APIStatusError

    with pytest.raises(APIStatusError) as raised:
        openai_client(embedding_server[:2]).embeddings.create(model="m", input="a" * 20_000)
    assert (raised.value.status_code, raised.value.code) == (413, "request_too_large")


def test_a_full_queue_is_a_rate_limit_error(embedding_server: Any) -> None:
    from openai import RateLimitError

    url, key, server = embedding_server
    client = openai_client((url, key))
    model = client.models.list().data[0].id
    server.encoder.unblocked.clear()
    try:
        with ThreadPoolExecutor(2) as threads:
            before = len(server.encoder.batches)
            for count in (1, QUERY_INPUTS):  # the first is computed, the others wait
                texts = [f"held up {count} {at}" for at in range(count)]
                threads.submit(client.embeddings.create, model=model, input=texts)
                wait_until(lambda: len(server.encoder.batches) > before)
            wait_until(lambda: server.value("queue_texts", lane="query") == QUERY_INPUTS)
            with pytest.raises(RateLimitError) as raised:
                client.embeddings.create(model=model, input="one more")
            server.encoder.unblocked.set()
    finally:
        server.encoder.unblocked.set()
    assert (raised.value.type, raised.value.code) == ("rate_limit_error", "overloaded")
    assert int(raised.value.response.headers["retry-after"]) >= 1


def test_an_unreachable_model_is_a_503(application: tuple[str, str]) -> None:
    from openai import InternalServerError

    with pytest.raises(InternalServerError) as raised:
        openai_client(application).embeddings.create(model="m", input="a")
    assert (raised.value.status_code, raised.value.type) == (503, "server_error")
    assert "retry-after" in raised.value.response.headers


def test_an_exceeded_quota_is_a_rate_limit_error(toy_services: Any) -> None:
    from openai import RateLimitError

    key = reader_key(toy_services)
    with open_controlled_web(toy_services, quota_requests=1) as app, served(app) as url:
        client = openai_client((url, key))

        def ask_often() -> None:
            for _ in range(5):  # a minute may end in between
                client.post("/rerank", body={"query": "a", "documents": ["a cat"]}, cast_to=object)

        with pytest.raises(RateLimitError) as raised:
            ask_often()
        assert (raised.value.type, raised.value.code) == ("rate_limit_error", "quota")
        for path, field, said in (("/v2/rerank", "message", "requests"), ("/rerank", "error_type", "overloaded")):
            headers, body = {"authorization": f"Bearer {key}"}, {"query": "a", "documents": ["a cat"]}
            answers = [httpx.post(url + path, headers=headers, json=body) for _ in range(5)]
            assert said in next(each for each in answers if each.status_code == 429).json()[field], path


def test_an_unexpected_exception_is_a_server_error_without_its_name(
    embedding_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openai import InternalServerError

    url, key, server = embedding_server
    monkeypatch.setattr(server.engine.scheduler, "check_room_for", lambda *_: 1 / 0)
    with pytest.raises(InternalServerError) as raised:
        openai_client((url, key)).post("/rerank", body={"query": "a", "documents": ["b"]}, cast_to=object)
    assert raised.value.type == "server_error"
    assert "ZeroDivision" not in str(raised.value)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_unknown_paths_answer_in_the_format_of_their_api(server: tuple[str, str], method: str) -> None:
    url, key = server
    for folder in FOLDERS:
        for path in (folder, f"{folder.rstrip('/')}/nothing", f"{folder.rstrip('/')}/%F0%9F%90%88/a"):
            answer = httpx.request(method, url + path, headers={"authorization": f"Bearer {key}"})
            assert answer.status_code == 404, (method, path, answer.text)
            if folder.startswith("/api"):
                assert answer.headers["content-type"] == "application/problem+json"
                assert "/docs" in answer.json()["detail"]
            else:
                assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
                assert "/docs" in answer.json()["error"]["message"]
    if method != "POST":
        answer = httpx.request(method, f"{url}/rerank", headers={"authorization": f"Bearer {key}"})
        assert (answer.status_code, answer.json()["error_type"]) == (405, "validation")


def test_unknown_paths_name_similar_ones(server: tuple[str, str]) -> None:
    def named(path: str) -> str:
        answer = httpx.get(server[0] + path, headers={"authorization": f"Bearer {server[1]}"})
        return str(answer.json()["detail"]).partition("There are: ")[2]

    assert "GET /api/v1/model" in named("/api/v1/models")


def test_an_unknown_path_that_resembles_none_names_none() -> None:
    paths = {f"/api/{name}": {"get": {}} for name in ("cats", "dogs", "boats", "rivers", "lakes", "seas")}
    assert "There are: GET /api/cats" in unknown_path("GET", "/api/cat", paths)
    assert "There are" not in unknown_path("GET", f"/api/{'z' * 30}", paths)


def test_the_command_line_parses_openai_s_errors() -> None:
    from app.commands.service import _error_of
    from app.errors import InputError

    error = _error_of(400, b'{"error": {"message": "Text 0 of 1 is empty."}}')
    assert isinstance(error, InputError)
    assert str(error) == "Text 0 of 1 is empty."


def test_paths_beside_the_api_say_where_pages_and_docs_are(application: tuple[str, str]) -> None:
    url, key = application
    answer = httpx.get(f"{url}/nothing", headers={"authorization": f"Bearer {key}"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert "/docs describes the API" in answer.json()["detail"]


def test_the_embedding_server_answers_other_paths_alike(embedding_server: Any) -> None:
    answer = httpx.get(f"{embedding_server[0]}/nothing", headers={"authorization": f"Bearer {KEY}"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert "/docs lists all paths" in answer.json()["detail"]


def test_embeddings_name_the_fields_that_they_ignore(embedding_server: tuple[str, str, WatchedServer]) -> None:
    client = openai_client(embedding_server[:2])
    [model] = client.models.list().data
    answer = client.embeddings.with_raw_response.create(model=model.id, input="a", extra_body={"late_chunking": True})
    assert answer.headers["x-gircse-ignored-fields"] == "late_chunking"
    assert len(answer.parse().data) == 1
