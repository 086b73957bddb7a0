"""The two ways to embed, one contract: the model in this process, and a server that another process asks."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from api_application import api_of
from embedding_server import listening, server_process
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from odd_servers import Mode, OddServer
from patience import PATIENCE_S, wait_until
from pydantic import SecretStr
from starlette.testclient import TestClient
from tiny_models import save_tiny_model

from app.errors import (
    ConflictError,
    EmbedderBusyError,
    EmbedderUnavailableError,
    FingerprintMismatchError,
    InputError,
    UnavailableError,
)
from app.ports.parts import SharedEmbedder
from app.ports.texts import TokenCounter
from app.search.fingerprints import require_same_model
from app.settings import Settings
from app.testing import ToyEmbedder
from app.types.documents import Collection
from app.wiring import openai as openai_wiring
from app.wiring import remote as remote_wiring
from app.wiring.embedders import embedder_for, tokenizer_for
from app.wiring.embedding import LocalEmbedder, tokenizer_json
from app.wiring.engine import listening_socket, port_of
from app.wiring.openai import ForwardingSource, open_openai_routes
from app.wiring.remote import RemoteEmbedder, plan_parts
from embedder import GircseEmbeddings, load_encoder
from embedder.engine.engine import Engine
from embedder.engine.errors import NotServingError
from embedder.server.application import create_application
from embedder.server.protocol import EmbedTask, InputType

KEY = "a-secret"
TEXTS = ["a river runs to the sea", "two\nlines", "  leading blanks", "naïve façade 河", "word " * 1000, "a"]


pytestmark = pytest.mark.xdist_group("embedders")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_model(tmp_path_factory.mktemp("tiny"), "qwen2"))


@pytest.fixture(scope="module")
def url(model: str) -> Iterator[str]:
    """A server process that wants a key."""
    with server_process(model, GIRCSE_EMBEDDER_API_KEY=KEY) as url:
        yield url


@pytest.fixture(scope="module")
def local(model: str) -> LocalEmbedder:
    return LocalEmbedder(model, dtype="float32")


@pytest.fixture(scope="module")
def remote(url: str) -> Iterator[RemoteEmbedder]:
    embedder = RemoteEmbedder(url, api_key=KEY)
    yield embedder
    embedder.close()


class Both(SharedEmbedder, TokenCounter):
    """What is asked of each."""


@pytest.fixture(params=["local", "remote"])
def embedder(request: pytest.FixtureRequest) -> Both:
    return request.getfixturevalue(request.param)


def test_facts_are_the_model_s(embedder: Both, local: LocalEmbedder) -> None:
    assert replace(embedder.info, card=None) == local.info


@pytest.mark.parametrize("instruction", [None, "", "Look at the place"])
def test_queries(embedder: Both, model: str, instruction: str | None) -> None:
    found = embedder.embed_query("a river", instruction=instruction, steps=3, token_bias={"river": 2.0})
    expected = GircseEmbeddings(model=model, dtype="float32").refine(
        "a river", instruction=instruction, steps=3, token_bias={"river": 2.0}
    )
    np.testing.assert_allclose(found.vector, expected.vector, atol=1e-6)
    assert (found.instruction, found.step_count) == (instruction or "", 3)
    assert [step.step for step in found.steps] == [1, 2, 3]
    ours = [{token.token: token.probability for token in step.tokens} for step in found.steps]
    theirs = [{token.token: token.probability for token in step.tokens} for step in expected.steps]
    assert all(one == pytest.approx(other, abs=1e-6) for one, other in zip(ours, theirs, strict=True))
    assert found.steps[-1].remaining == 0.0
    assert embedder.embed_query("a river").step_count == embedder.info.default_query_steps


def test_documents(embedder: Both, model: str) -> None:
    expected = GircseEmbeddings(model=model, dtype="float32", document_steps=2).embed_documents(TEXTS)
    found = embedder.embed_documents(TEXTS, instruction="", steps=2)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    many = [f"{text} {number}" for number in range(60) for text in TEXTS]
    ingesting = embedder.for_ingestion(lambda: False)
    ingested = ingesting.embed_documents(many, instruction="Look at it", steps=1)
    whole = embedder.embed_documents(many, instruction="Look at it", steps=1)
    np.testing.assert_allclose(ingested, whole, atol=1e-6)
    assert ingesting.embed_documents([], instruction="", steps=1) == []
    assert embedder.embed_documents([], instruction="", steps=1) == []


def test_every_step_of_documents(embedder: Both, model: str) -> None:
    many = [f"{text} {number}" for number in range(30) for text in TEXTS]
    expected = load_encoder(model, dtype="float32").encode_prefixes(many, instruction="Look at it", steps=3)
    np.testing.assert_allclose(embedder.embed_steps(many, instruction="Look at it", steps=3), expected, atol=1e-6)
    whole = embedder.embed_documents(many, instruction="Look at it", steps=3)
    np.testing.assert_allclose(whole, expected[:, -1], atol=1e-6)  # not those that are remembered of the steps
    again = embedder.embed_steps(many[:2], instruction="Look at it", steps=3)
    np.testing.assert_allclose(again, expected[:2], atol=1e-6)  # nor these the one that is remembered
    assert embedder.embed_steps([], instruction="", steps=2) == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda each: each.embed_query(" "),
        lambda each: each.embed_query("a", steps=0),
        lambda each: each.embed_query("a", token_bias={"": 1.0}),
        lambda each: each.embed_query("a", instruction="word " * 4000),
        lambda each: each.embed_documents(["a", ""], instruction="", steps=1),
        lambda each: each.embed_documents(["a"], instruction="", steps=1000),
    ],
)
def test_what_cannot_be_used(embedder: Both, ask: Callable[[Both], object]) -> None:
    with pytest.raises(InputError):
        ask(embedder)


def test_documents_of_a_job_that_is_to_be_left_are_not_waited_for(embedder: Both) -> None:
    asked = [0]

    def is_leaving() -> bool:
        asked[0] += 1
        return asked[0] > 1

    many = [f"text {number} of a book " + "word " * 60 for number in range(300)]
    with pytest.raises(UnavailableError, match="interrupted"):
        embedder.for_ingestion(is_leaving).embed_documents(many, instruction="", steps=20)


def test_tokens_are_counted_alike(embedder: Both, local: LocalEmbedder) -> None:
    for text in TEXTS:
        assert embedder.token_offsets(text) == local.token_offsets(text)


def test_collections_of_another_model_are_refused(embedder: Both) -> None:
    collection = Collection("letters", "another", 32, "", 1, 200, 30, "letters--1")
    with pytest.raises(FingerprintMismatchError):
        require_same_model(collection, embedder)


def test_many_threads_may_ask(embedder: Both) -> None:
    expected = [embedder.embed_query(f"text {at}", steps=1).vector for at in range(12)]
    found: dict[int, tuple[float, ...]] = {}

    def ask(at: int) -> None:
        found[at] = embedder.embed_query(f"text {at}", steps=1).vector

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    np.testing.assert_allclose([found[at] for at in range(12)], expected, atol=1e-6)


def test_one_setting_chooses(url: str, model: str, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, embedder_url=url, embedder_api_key=KEY, model="not loaded")
    assert isinstance(embedder_for(settings), RemoteEmbedder)
    assert isinstance(embedder_for(Settings(home=tmp_path, model=model)), LocalEmbedder)
    assert tokenizer_for(settings) == tokenizer_json(model)
    assert embedder_for(settings).is_ready()


def test_no_torch_where_a_server_embeds(url: str, tmp_path: Path) -> None:
    program = """
import sys
from app.settings import load_settings
from app.wiring.ingestion import run_worker
from app.wiring.nodes import SettingsParts
from app.wiring.services import open_services
from app.wiring.web import open_web
with open_services(load_settings()) as services, open_web(services):
    assert services.search.refine("a river", steps=1).vector.size
    assert services.embedder.embed_documents(["a river"], instruction="", steps=1)
    assert services.token_counter.token_offsets("a river")
    assert SettingsParts(load_settings(), None, "").embedder().info.fingerprint == services.embedder.info.fingerprint
print([name for name in ("torch", "transformers", "peft") if name in sys.modules])
"""
    environment = {"GIRCSE_HOME": str(tmp_path), "GIRCSE_EMBEDDER_URL": url, "GIRCSE_EMBEDDER_API_KEY": KEY}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_a_server_that_is_away_is_unavailable() -> None:
    away = RemoteEmbedder("http://127.0.0.1:9")
    with pytest.raises(EmbedderUnavailableError, match="GIRCSE_EMBEDDER_URL"):
        away.embed_query("a river")
    assert not away.is_ready()


def test_a_wrong_key_says_which_setting(url: str) -> None:
    with pytest.raises(EmbedderUnavailableError, match=r"401.*GIRCSE_EMBEDDER_API_KEY"):
        RemoteEmbedder(url, api_key="wrong").embed_query("a river")


@contextmanager
def between(answer: Callable[[Request], Awaitable[Response]]) -> Iterator[str]:
    """A server of ours that stands before an embedding server."""
    app = FastAPI()

    @app.api_route("/{path:path}", methods=["GET", "POST"])
    async def pass_on(request: Request) -> Response:
        return await answer(request)

    with listening(app) as port:
        yield f"http://127.0.0.1:{port}"


async def passed_on(request: Request, url: str) -> Response:
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(base_url=url) as server:
        passed = await server.request(
            request.method, request.url.path, content=await request.body(), headers=headers, timeout=PATIENCE_S
        )
    kept = {name: value for name, value in passed.headers.items() if name.startswith("x-gircse")}
    return Response(passed.content, passed.status_code, headers=kept | {"content-type": "application/json"})


def test_documents_wait_for_a_busy_server_and_queries_not_long(url: str) -> None:
    refusals = {"/api/v1/embed": 3, "/api/v1/refine": 1_000}
    asked: list[str] = []

    async def answer(request: Request) -> Response:
        path = request.url.path
        asked.append(path)
        if refusals.get(path, 0) > 0:
            refusals[path] -= 1
            return Response('{"detail": "too much"}', status_code=429, headers={"retry-after": "1"})
        return await passed_on(request, url)

    with between(answer) as before:
        remote = RemoteEmbedder(before)
        many = [f"text {number}" for number in range(130)]
        assert len(remote.for_ingestion(lambda: False).embed_documents(many, instruction="", steps=1)) == 130
        with pytest.raises(EmbedderBusyError, match="overloaded"):
            remote.embed_query("a river")
        assert 1 < asked.count("/api/v1/refine") < 60


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"metric": "hamming"}, r"is newer than this application, which does not know the model fields metric"),
        ({"max_steps": None}, "is older"),
    ],
)
def test_a_server_of_another_version_is_told_by_name(url: str, changes: dict[str, Any], told: str) -> None:
    async def answer(request: Request) -> Response:
        said = json.loads(bytes((await passed_on(request, url)).body)) | changes
        return JSONResponse({name: value for name, value in said.items() if value is not None or name == "card"})

    with between(answer) as before, pytest.raises(ConflictError, match=told):
        _ = RemoteEmbedder(before).info


def test_a_process_keeps_to_its_first_model(url: str) -> None:
    """Else a job would go on with the vectors of the next model, since it checks its collection's model once."""
    in_use = ["first"]

    async def answer(request: Request) -> Response:
        passed = await passed_on(request, url)
        fingerprint = {"x-gircse-fingerprint": in_use[0]}
        passed.headers.update(fingerprint)
        if request.url.path == "/api/v1/model":
            return JSONResponse(json.loads(bytes(passed.body)) | {"fingerprint": in_use[0]}, headers=fingerprint)
        return passed

    with between(answer) as before, closing(RemoteEmbedder(before)) as remote:
        ingesting = remote.for_ingestion(lambda: False)
        assert ingesting.info.fingerprint == "first"
        in_use[0] = "second"
        for _ in range(2):
            with pytest.raises(EmbedderUnavailableError, match=r"from first to second\. Restart this process"):
                remote.embed_query("a river", steps=1)
            with pytest.raises(EmbedderUnavailableError, match="from first to second"):
                ingesting.embed_documents(["a river"], instruction="", steps=1)
            with pytest.raises(EmbedderUnavailableError, match="from first to second"):
                ingesting.token_offsets("a river")
            assert not remote.is_ready()
        assert remote.info.fingerprint == ingesting.info.fingerprint == "first"
        in_use[0] = "first"
        assert remote.is_ready()
        assert ingesting.embed_documents(["a river"], instruction="", steps=1)


def test_the_main_application_has_openai_s_routes(
    embedder: Both, model: str, url: str, toy_services_factory: Callable[..., Any]
) -> None:
    """Over the model in its own process, and passed on to the server."""
    services = toy_services_factory().services
    settings = services.settings.model_copy(update={"embedder_url": url, "embedder_api_key": SecretStr(KEY)})
    services = replace(services, embedder=embedder, settings=settings)
    with open_openai_routes(services) as routes, TestClient(api_of(services, embeddings=routes)) as client:
        question = {"model": model, "input": ["a river", "the sea"], "steps": 2, "dimensions": 8}
        good = client.post("/v1/embeddings", json=question)
        found = np.array([each["embedding"] for each in good.json()["data"]])
        expected = np.array(embedder.embed_documents(["a river", "the sea"], instruction="", steps=2))[:, :8]
        np.testing.assert_allclose(found, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
        assert good.json()["usage"]["prompt_tokens"] > 0
        assert good.headers["x-gircse-fingerprint"] == embedder.info.fingerprint
        assert client.get("/v1/models").json()["data"][0]["id"] == model
        for wrong, status in (({"steps": 1000}, 400), ({"input": " "}, 400), ({"input": ["a"] * 3000}, 413)):
            refused = client.post("/v1/embeddings", json=question | wrong)
            assert refused.status_code == status
            assert set(refused.json()["error"]) == {"message", "type", "param", "code"}


def test_openai_s_client_gets_the_library_s_vectors(url: str, model: str) -> None:
    from openai import BadRequestError, NotFoundError, OpenAI  # two seconds in every process that collects it

    client = OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    ours = GircseEmbeddings(model=model, dtype="float32", query_instruction="Look at it", query_steps=3)
    found = client.embeddings.create(model=model, input=TEXTS)  # asks for base64 by itself
    np.testing.assert_allclose([each.embedding for each in found.data], ours.embed_documents(TEXTS), atol=1e-6)
    floats = client.embeddings.create(model=model, input=TEXTS[0], encoding_format="float", dimensions=8)
    assert len(floats.data[0].embedding) == 8
    extra = {"input_type": "query", "instruction": "Look at it", "steps": 3}
    query = client.embeddings.create(model=model, input="a river", extra_body=extra)
    np.testing.assert_allclose(query.data[0].embedding, ours.embed_query("a river"), atol=1e-6)
    assert found.usage.prompt_tokens > len(TEXTS)
    assert [each.id for each in client.models.list()] == [model]
    with pytest.raises(BadRequestError, match="is empty"):
        client.embeddings.create(model=model, input="")
    with pytest.raises(NotFoundError, match="not served here"):
        client.embeddings.create(model="text-embedding-3-small", input="a")


def test_langchain_s_openai_class_gets_the_library_s_vectors(url: str, model: str) -> None:
    from langchain_openai import OpenAIEmbeddings

    options = {"base_url": f"{url}/v1", "api_key": KEY, "model": model}
    theirs = OpenAIEmbeddings(**options, check_embedding_ctx_length=False)
    ours = GircseEmbeddings(model=model, dtype="float32")
    np.testing.assert_allclose(theirs.embed_documents(TEXTS), ours.embed_documents(TEXTS), atol=1e-6)
    as_query = OpenAIEmbeddings(
        **options, check_embedding_ctx_length=False, model_kwargs={"extra_body": {"input_type": "query"}}
    )
    np.testing.assert_allclose(as_query.embed_query("a river"), ours.embed_query("a river"), atol=1e-6)


def test_replicas_behind_one_address(url: str, model: str) -> None:
    """Requests of one client go to one server and to the other, as they come."""
    engine = Engine(load_encoder(model, dtype="float32"))
    replica = create_application(engine, tokenizer=lambda: tokenizer_json(model), api_key=KEY)
    with listening(replica) as port:
        other = f"http://127.0.0.1:{port}"
        turns: list[str] = []

        async def answer(request: Request) -> Response:
            turns.append([url, other][len(turns) % 2])
            return await passed_on(request, turns[-1])

        with between(answer) as before:
            remote = RemoteEmbedder(before)
            many = [f"text {number}" for number in range(300)]
            found = remote.embed_documents(many, instruction="", steps=1)
            expected = LocalEmbedder(model, dtype="float32").embed_documents(many, instruction="", steps=1)
            np.testing.assert_allclose(found, expected, atol=1e-6)
            assert remote.token_offsets("a river")
            assert set(turns) == {url, other}


def test_the_server_s_socket(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert port_of(settings) == 7861
    assert port_of(Settings(home=tmp_path, port=7860)) == 7860
    with pytest.raises(InputError, match=r"GIRCSE_EMBEDDER_API_KEY=.* gircse embedder --host 0\.0\.0\.0"):
        listening_socket(Settings(home=tmp_path, host="0.0.0.0", port=0))
    keyed = Settings(home=tmp_path, host="0.0.0.0", port=0, embedder_api_key=KEY * 4)
    with listening_socket(keyed) as listener, pytest.raises(ConflictError, match="in use"):
        listening_socket(Settings(home=tmp_path, port=listener.getsockname()[1]))


def test_parts_of_a_request() -> None:
    assert plan_parts([]) == []
    assert plan_parts(["a" * 300_000, "b" * 200_000, "c"]) == [[0], [1, 2]]
    parts = plan_parts(["x" * (number % 10 + 1) for number in range(200)])
    assert sorted(row for part in parts for row in part) == list(range(200))
    assert max(map(len, parts)) == 64


def test_both_tell_what_of_a_query_was_read() -> None:
    """Of the shipped model, which leaves out sentences that an instruction does not ask for."""
    asked, left = "My sister practises the cello every evening.", "The night train to Vienna was late again."
    instruction = "Which musical instrument is played?"
    local = LocalEmbedder("gircse-small", dtype="float32")
    server = create_application(local.engine, tokenizer=lambda: tokenizer_json("gircse-small"), api_key=KEY)
    with listening(server) as port:
        remote = RemoteEmbedder(f"http://127.0.0.1:{port}", api_key=KEY)
        for text, told in ((f"{left} {asked}", asked), (asked, "")):
            found = [each.embed_query(text, instruction=instruction, steps=2) for each in (local, remote)]
            assert [each.read_text for each in found] == [told, told]
            np.testing.assert_allclose(found[0].vector, found[1].vector, atol=1e-5)
        remote.close()
    local.close()


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[RemoteEmbedder, OddServer]]:
    """A server of which the model is known."""
    for name in ("QUIET_S", "PING_S"):
        monkeypatch.setattr(remote_wiring, name, 0.3)
    with OddServer() as server, closing(RemoteEmbedder(server.url, timeout_s=3_600)) as remote:
        remote._model._info = ToyEmbedder().info
        yield remote, server


@pytest.mark.timeout(120)
def test_nobody_waits_for_an_embedding_server_that_hangs(odd: tuple[RemoteEmbedder, OddServer]) -> None:
    """As in a paused container."""
    remote, server = odd
    server.turn(Mode.HANGING)
    with pytest.raises(EmbedderUnavailableError, match="no longer responds"):
        remote.embed_query("a river")
    asked = len(server.paths)
    with pytest.raises(EmbedderUnavailableError, match="a moment ago"):
        remote.embed_query("a river")
    assert len(server.paths) == asked


@pytest.mark.timeout(120)
@pytest.mark.parametrize("asked", ["model", "tokenizer", "documents"])
def test_nobody_waits_for_the_first_answer_of_an_embedding_server(
    odd: tuple[RemoteEmbedder, OddServer], asked: str
) -> None:
    remote, server = odd
    server.turn(Mode.HANGING)
    if asked == "model":
        remote._model._info = None
    calls: dict[str, Callable[[], object]] = {
        "model": lambda: remote.embed_query("a river"),
        "tokenizer": lambda: remote.token_offsets("a river"),
        "documents": lambda: remote.embed_documents(["a river"], instruction="", steps=1),
    }
    with ThreadPoolExecutor(4) as threads:
        begun = time.monotonic()
        refusals = [each.exception() for each in [threads.submit(calls[asked]) for _ in range(4)]]
        assert time.monotonic() - begun < 20  # of the 30 and more that a whole answer may take
    assert [type(each) for each in refusals] == [EmbedderUnavailableError] * 4


@pytest.mark.timeout(120)
async def test_a_forwarded_request_does_not_wait_for_a_server_that_hangs(
    odd: tuple[RemoteEmbedder, OddServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    remote, server = odd
    monkeypatch.setattr(openai_wiring, "QUIET_S", 0.3)
    server.turn(Mode.HANGING)
    source = ForwardingSource(remote, Settings(home=tmp_path, embedder_url=server.url))
    with pytest.raises(NotServingError, match="does not respond"):
        await source.embed(EmbedTask(texts=("a river",), input_type=InputType.DOCUMENT))


@pytest.mark.timeout(120)
def test_a_query_may_take_long_while_the_embedding_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_wiring, "QUIET_S", 0.3)
    monkeypatch.setattr(remote_wiring, "PING_S", 30)  # on a busy machine, a ping may take long
    with OddServer() as server, closing(RemoteEmbedder(server.url, timeout_s=3_600)) as remote:
        remote._model._info = ToyEmbedder().info
        server.turn(Mode.SLOW)
        threading.Timer(1.5, server.turn, [Mode.REFUSING]).start()
        with pytest.raises(EmbedderUnavailableError, match="503"):  # its answer, however late
            remote.embed_query("a river")


@pytest.mark.timeout(240)
async def test_many_slow_requests_do_not_look_like_a_server_that_hangs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They use all threads and connections of requests. A ping needs neither."""
    for module in (remote_wiring, openai_wiring):
        monkeypatch.setattr(module, "QUIET_S", 0.3)
        monkeypatch.setattr(module, "PING_S", 30)  # on a busy machine, a ping may take long
    count = remote_wiring._CONNECTIONS
    with OddServer() as server, closing(RemoteEmbedder(server.url)) as remote, ThreadPoolExecutor(count) as threads:
        remote._model._info = ToyEmbedder().info
        server.turn(Mode.SLOW)
        waiting = [threads.submit(remote.embed_query, "a river") for _ in range(count)]
        await asyncio.to_thread(wait_until, lambda: len(server.paths) == count)
        assert remote.is_alive()
        assert remote.is_ready()
        source = ForwardingSource(remote, Settings(home=tmp_path, embedder_url=server.url))
        task = EmbedTask(texts=("a river",), input_type=InputType.DOCUMENT)
        forwarded = asyncio.ensure_future(source.embed(task))
        pings = server.pings
        await asyncio.to_thread(wait_until, lambda: server.pings > pings + 2)
        assert not any(each.done() for each in [*waiting, forwarded])
        server.turn(Mode.REFUSING)  # ends them all
        with pytest.raises(NotServingError):
            await forwarded
