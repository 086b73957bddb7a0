"""How many requests are in flight, wait, and are refused; by a model that answers when it is told to."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_application import api_of
from patience import PATIENCE_S

from app.api import admission
from app.api.admission import (
    ANSWERS,
    OTHERS,
    SEARCHES,
    STREAMS,
    TEXTS,
    Admission,
    core_count,
    limits_of,
    request_class_of,
)
from app.api.fair_slots import FairSlots, SlotLimits
from app.runtime.metrics import ProcessMetrics
from app.settings import Settings
from app.testing import ToyEmbedder
from app.types.access import Principal, Role

QUESTION = {"query": "cat", "collection": "library", "explain": False}


class GatedEmbedder(ToyEmbedder):
    """Tells when a query has reached it, and answers once `unblocked` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Semaphore(0)
        self.unblocked = threading.Event()
        self.unblocked.set()

    def embed_query(self, text: str, **options: Any) -> Any:
        self.reached.release()
        assert self.unblocked.wait(PATIENCE_S)
        return super().embed_query(text, **options)


@pytest.fixture
def embedder() -> Iterator[GatedEmbedder]:
    embedder = GatedEmbedder()
    yield embedder
    embedder.unblocked.set()


@pytest.fixture
def client_factory(toy_services_factory: Callable[..., Any], embedder: GatedEmbedder) -> Callable[..., Any]:
    @asynccontextmanager
    async def build(**settings: Any) -> AsyncIterator[httpx.AsyncClient]:
        application = toy_services_factory(embedder=embedder)
        application.add("The cat sleeps on the sofa.")
        services = replace(application.services, settings=Settings(home=application.services.settings.home, **settings))
        transport = httpx.ASGITransport(api_of(services))
        async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=PATIENCE_S) as client:
            embedder.unblocked.clear()
            yield client

    return build


def search(client: httpx.AsyncClient, query: str = "cat") -> asyncio.Task[httpx.Response]:
    return asyncio.create_task(client.post("/api/v1/search", json={**QUESTION, "query": query}))


def rerank(client: httpx.AsyncClient) -> asyncio.Task[httpx.Response]:
    return asyncio.create_task(
        client.post("/v2/rerank", json={"query": "cat", "documents": ["The cat."], "model": "m"})
    )


async def reached(embedder: GatedEmbedder) -> None:
    assert await asyncio.to_thread(embedder.reached.acquire, timeout=PATIENCE_S)


async def waiting(client: httpx.AsyncClient, count: int) -> None:
    wanted = f'gircse_requests_admitted{{lane="searches",state="waiting"}} {count:.1f}'
    async with asyncio.timeout(30):
        while wanted not in (await client.get("/metrics")).text:
            await asyncio.sleep(0.01)


async def test_some_are_answered_some_wait_and_the_rest_are_told_to_come_back(
    client_factory: Callable[..., Any], embedder: GatedEmbedder
) -> None:
    async with client_factory(searches_at_once=2, search_wait_s=30) as client:
        first, second = search(client, "cat"), search(client, "dog")
        await reached(embedder)
        await reached(embedder)
        patient = [search(client, f"sofa {number}") for number in range(6)]
        await waiting(client, 6)
        refused = await search(client, "mat")
        assert refused.status_code == 429
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.headers["retry-after"] == "30"
        assert refused.json()["status"] == 429
        assert not any(each.done() for each in (first, second, *patient))
        metrics = (await client.get("/metrics")).text
        assert 'gircse_requests_refused_total{lane="searches"} 1.0' in metrics
        assert 'gircse_requests_admitted{lane="searches",state="in hand"} 2.0' in metrics
        embedder.unblocked.set()
        answers = await asyncio.gather(first, second, *patient)
        assert [answer.status_code for answer in answers] == [200] * 8
        assert (await search(client, "again")).status_code == 200
        await waiting(client, 0)


async def test_who_has_waited_too_long_is_refused(client_factory: Callable[..., Any], embedder: GatedEmbedder) -> None:
    async with client_factory(searches_at_once=1, search_wait_s=0.05) as client:
        first = search(client)
        await reached(embedder)
        assert (await search(client, "dog")).status_code == 429
        await waiting(client, 0)
        embedder.unblocked.set()
        assert (await first).status_code == 200


async def test_a_search_holds_up_nothing_else(client_factory: Callable[..., Any], embedder: GatedEmbedder) -> None:
    async with client_factory(searches_at_once=1, search_wait_s=30) as client:
        first = search(client)
        await reached(embedder)
        for path in ("/healthz", "/readyz", "/metrics", "/api/v1/documents?collection=library"):
            assert (await client.get(path)).status_code == 200
        posted = await client.post("/api/v1/documents", json={"text": "The dog barks."})
        assert posted.status_code == 202
        embedder.unblocked.set()
        assert (await first).status_code == 200


async def test_texts_that_a_client_sends_hold_up_no_search(
    client_factory: Callable[..., Any], embedder: GatedEmbedder
) -> None:
    async with client_factory(searches_at_once=1, search_wait_s=0.05) as client:
        first = rerank(client)
        await reached(embedder)
        assert (await client.post("/api/v1/search", json={**QUESTION, "mode": "sparse"})).status_code == 200
        embedder.unblocked.set()
        assert (await first).status_code == 200


async def test_a_place_is_free_again_after_a_fault_and_after_a_client_that_went(
    client_factory: Callable[..., Any], embedder: GatedEmbedder
) -> None:
    async with client_factory(searches_at_once=1, search_wait_s=30) as client:
        embedder.unblocked.set()
        assert (await client.post("/api/v1/search", json={**QUESTION, "limit": 0})).status_code == 422
        assert (await client.post("/api/v1/search", content=b"{")).status_code == 422
        assert (await client.post("/api/v1/search", json={**QUESTION, "collection": "none"})).status_code == 404
        embedder.unblocked.clear()
        first = search(client)
        while not embedder.reached.acquire(blocking=False):
            await asyncio.sleep(0.01)
        gone = search(client, "dog")
        await waiting(client, 1)
        gone.cancel()
        await waiting(client, 0)
        embedder.unblocked.set()
        assert (await first).status_code == 200
        assert (await search(client, "sofa")).status_code == 200


async def test_a_body_that_trickles_takes_no_place(client_factory: Callable[..., Any], embedder: GatedEmbedder) -> None:
    async with client_factory(searches_at_once=1, search_wait_s=0.05) as client:
        embedder.unblocked.set()
        has_begun, may_end = asyncio.Event(), asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield b" "
            has_begun.set()
            await may_end.wait()
            yield json.dumps(QUESTION).encode()

        slow = asyncio.create_task(
            client.post("/api/v1/search", content=body(), headers={"content-type": "application/json"})
        )
        await has_begun.wait()
        assert (await search(client, "dog")).status_code == 200
        may_end.set()
        assert (await slow).status_code == 200


async def test_openai_clients_are_refused_in_their_own_words(
    client_factory: Callable[..., Any], embedder: GatedEmbedder
) -> None:
    async with client_factory(searches_at_once=1, search_wait_s=0.05) as client:
        first = rerank(client)
        await reached(embedder)
        refused = await client.post("/v1/embeddings", content=b"")  # without a body its turn is at once
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "overloaded"
        embedder.unblocked.set()
        assert (await first).status_code == 200


async def test_the_one_who_has_waited_longest_is_next() -> None:
    slots = FairSlots(SlotLimits(at_once=1, waiting=1, burst=3, wait_s=30))
    assert await slots.acquire()
    entered: list[int] = []

    async def come(number: int) -> None:
        assert await slots.acquire()
        entered.append(number)

    tasks = [asyncio.create_task(come(number)) for number in range(3)]
    for count in (1, 2, 3):
        await asyncio.sleep(0)
        slots.release()
        while len(entered) < count:
            await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert entered == [0, 1, 2]


async def test_a_burst_may_wait_and_what_goes_on_for_long_may_not() -> None:
    slots = FairSlots(SlotLimits(at_once=1, waiting=1, burst=3, wait_s=30))
    assert await slots.acquire()
    waiters: list[asyncio.Task[bool]] = []

    async def fill() -> int:
        """How many wait when no more may."""
        while not slots.refuses():
            waiters.append(asyncio.create_task(slots.acquire()))
            await asyncio.sleep(0)
        return sum(not waiter.done() for waiter in waiters)

    async def let_one_in() -> None:
        slots.release()
        waiter = waiters.pop(0)
        assert await waiter

    assert await fill() == 3
    for _ in range(20):
        assert slots.refuses()
    for _ in range(2):
        await let_one_in()
        assert slots.refuses()
    await let_one_in()
    assert await fill() == 1
    for _ in range(40):
        await let_one_in()
        waiters.append(asyncio.create_task(slots.acquire()))
        await asyncio.sleep(0)
    assert await fill() == 3
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)


async def test_a_client_that_fills_the_queue_leaves_room_for_others() -> None:
    slots = FairSlots(SlotLimits(at_once=1, waiting=1, burst=3, wait_s=30))
    assert await slots.acquire("greedy")
    greedy = [asyncio.create_task(slots.acquire("greedy")) for _ in range(3)]
    await asyncio.sleep(0)
    assert slots.refuses("greedy")
    modest = asyncio.create_task(slots.acquire("modest"))
    await asyncio.sleep(0)
    assert not await greedy[2]  # its latest request gives way
    assert not slots.refuses("another")
    slots.release("greedy")
    assert await modest  # before the earlier requests of the client that had the slot
    slots.release("modest")
    assert await greedy[0]
    slots.release("greedy")
    assert await greedy[1]


async def test_a_client_leaves_slots_for_others() -> None:
    limits = SlotLimits(at_once=3, waiting=4, burst=4, wait_s=0.05, of_client=2)
    slots = FairSlots(limits)
    assert await slots.acquire("greedy")
    assert await slots.acquire("greedy")
    assert not await slots.acquire("greedy")
    assert await slots.acquire("modest")
    assert not await slots.acquire("another")
    slots.release("greedy")
    assert await slots.acquire("another")


async def test_who_goes_with_a_slot_gives_it_back() -> None:
    slots = FairSlots(SlotLimits(at_once=1, waiting=1, burst=1, wait_s=30))
    assert await slots.acquire()
    gone = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    slots.release()  # gone has the slot, and has not run since
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    assert await slots.acquire()


@pytest.mark.parametrize("path", ["/api/v1/collections", "/v2/rerank"])
async def test_clients_are_users_once_their_keys_were_right(path: str) -> None:
    """A user with many keys is one client, and wrong keys are of their address."""
    clients: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if dict(scope["headers"])[b"x-api-key"].startswith(b"right"):
            scope.setdefault("state", {})["principal"] = Principal("anna", Role.READER)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    admission_of_app = Admission(app, settings=Settings(), metrics=ProcessMetrics())
    slots = admission_of_app._classes[request_class_of("POST", path) or ""]
    release = slots.release
    slots.release = lambda client="": clients.append(client) or release(client)  # type: ignore[method-assign,func-returns-value]
    transport = httpx.ASGITransport(admission_of_app, client=("10.0.0.7", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        for key in ("right 1", "right 2", "wrong", "right 1", "right 2", "wrong"):
            await client.post(path, headers={"x-api-key": key})
    assert clients == ["10.0.0.7"] * 3 + ["user anna"] * 2 + ["10.0.0.7"]


async def test_streams_beyond_those_of_a_client_are_refused_at_once() -> None:
    limits = limits_of(Settings())[STREAMS]
    slots = FairSlots(limits)
    for _ in range(limits.of_client or 0):
        assert await slots.acquire("greedy")
    assert not await slots.acquire("greedy")
    assert await slots.acquire("modest")


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("content", [b"x", None])
async def test_a_body_that_no_route_reads_gives_no_place(method: str, content: bytes | None) -> None:
    """None: in pieces, of unknown length."""
    running, most = 0, 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"
        yield b"y"

    admission_of_app = Admission(app, settings=Settings(requests_at_once=2), metrics=ProcessMetrics())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(admission_of_app), base_url="http://test") as client:
        sent = [client.request(method, "/api/v1/jobs/retry", content=content or pieces()) for _ in range(6)]
        assert {each.status_code for each in await asyncio.gather(*sent)} == {200}
    assert most <= 2


def test_long_requests_of_one_client_leave_slots() -> None:
    limits = limits_of(Settings())
    for name in (TEXTS, ANSWERS, OTHERS, STREAMS):
        of_client = limits[name].of_client
        assert of_client is not None
        assert of_client < limits[name].at_once


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/api/v1/search", SEARCHES),
        ("POST", "/v1/embeddings", TEXTS),
        ("POST", "/v1/rerank", TEXTS),
        ("POST", "/v2/rerank", TEXTS),
        ("POST", "/rerank", TEXTS),
        ("POST", "/api/v1/collections/a/weights", TEXTS),
        ("GET", "/api/v1/collections/a/weights", OTHERS),
        ("GET", "/v2/nothing", OTHERS),
        ("POST", "/mcp", SEARCHES),
        ("GET", "/mcp", STREAMS),
        ("POST", "/api/v1/documents", OTHERS),
        ("GET", "/api/v1/jobs/1/events", STREAMS),
        ("GET", "/readyz", None),
        ("GET", "/metrics", None),
        ("POST", "/login", None),
        ("POST", "/gradio_api/queue/join", None),
        ("GET", "/", None),
    ],
)
def test_request_classes(method: str, path: str, name: str | None) -> None:
    assert request_class_of(method, path) == name


@pytest.mark.parametrize(("cores", "searches"), [(1, 1), (2, 1), (4, 2), (16, 8)])
def test_more_searches_at_once_where_an_embedding_server_computes(
    monkeypatch: pytest.MonkeyPatch, cores: int, searches: int
) -> None:
    monkeypatch.setattr(admission, "core_count", lambda: cores)
    here, elsewhere = limits_of(Settings()), limits_of(Settings(embedder_url="http://127.0.0.1:1"))
    assert (here[SEARCHES].at_once, elsewhere[SEARCHES].at_once) == (1, searches)
    chosen = limits_of(Settings(searches_at_once=7, requests_at_once=3))
    assert (chosen[SEARCHES].at_once, chosen[SEARCHES].waiting, chosen[SEARCHES].burst) == (7, 3, 21)
    assert chosen[OTHERS].at_once == 3


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", None), ("50000 100000", 1), ("100000 100000", 1), ("", None)]
)
def test_a_container_has_the_cores_that_it_may_use(tmp_path: Path, quota: str, cores: int | None) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    assert core_count(tmp_path / "cpu.max") == (cores or core_count(tmp_path / "missing"))
