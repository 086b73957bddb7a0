"""Checks of passwords: how many take a thread at the same time, and that others get their turn."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from access_application import open_access_application
from api_application import api_of
from patience import PATIENCE_S

from app.access.logins import Logins
from app.api.documents import FETCHES_OF_USER
from app.api.fair_slots import FairSlots, SlotLimits
from app.api.login import CHECKS_OF_NETWORK
from app.types.documents import Source


async def idle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_one_client_leaves_turns_for_others() -> None:
    slots, may_end, running = FairSlots(SlotLimits(at_once=3, of_client=2)), asyncio.Event(), Counter[str]()

    async def work(client: str) -> None:
        async with slots.turn(client):
            running[client] += 1
            await may_end.wait()
            running[client] -= 1

    async with asyncio.TaskGroup() as tasks:
        for client in (*"aaaaaaaa", *"bb"):
            tasks.create_task(work(client))
        await idle()
        assert running == {"a": 2, "b": 1}
        may_end.set()
    assert not slots.waiting
    assert not slots.in_flight


async def test_who_goes_while_waiting_leaves_nothing_behind() -> None:
    slots, may_end = FairSlots(SlotLimits(at_once=1, of_client=1)), asyncio.Event()

    async def work() -> None:
        async with slots.turn("a"):
            await may_end.wait()

    first, second = asyncio.create_task(work()), asyncio.create_task(work())
    await idle()
    second.cancel()
    await idle()
    may_end.set()
    await asyncio.gather(first, second, return_exceptions=True)
    assert not slots.waiting
    assert not slots.in_flight
    async with asyncio.timeout(PATIENCE_S):
        await work()


class Held:
    """Logins that wait, each in its thread, until they may end."""

    def __init__(self) -> None:
        self.addresses: Counter[str] = Counter()
        self.may_end = threading.Event()

    def log_in(self, name: str, password: str, *, address: str, browser: str = "") -> str:
        self.addresses[address] += 1
        assert self.may_end.wait(PATIENCE_S)
        return "token"


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    held = Held()
    monkeypatch.setattr(Logins, "log_in", lambda self, *given, **named: held.log_in(*given, **named))
    yield held
    held.may_end.set()


async def test_many_logins_of_one_address_take_few_threads(toy_services: Any, held: Held) -> None:
    with open_access_application(toy_services) as application:

        def client(address: str) -> httpx.AsyncClient:
            transport = httpx.ASGITransport(application.app, client=(address, 50_000))
            return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=PATIENCE_S)

        async with client("10.0.0.1") as many, client("10.0.0.2") as other:
            form = {"name": "anna", "password": "a password"}
            tasks = [asyncio.create_task(many.post("/login", data=form)) for _ in range(50)]
            async with asyncio.timeout(PATIENCE_S):
                while held.addresses["10.0.0.1"] < CHECKS_OF_NETWORK:
                    await asyncio.sleep(0.01)
                tasks.append(asyncio.create_task(other.post("/login", data=form)))
                while not held.addresses["10.0.0.2"]:
                    await asyncio.sleep(0.01)
            assert held.addresses["10.0.0.1"] == CHECKS_OF_NETWORK
            held.may_end.set()
            assert {answer.status_code for answer in await asyncio.gather(*tasks)} == {303}


async def test_pages_that_one_user_has_fetched_take_little_memory(toy_services: Any) -> None:
    """Each may hold 100 MB until its slow server has sent all of it."""
    running, most, may_end = 0, 0, threading.Event()
    lock = threading.Lock()

    def read_url(url: str) -> Source:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        assert may_end.wait(PATIENCE_S)
        with lock:
            running -= 1
        return Source(url, url, "text/plain", data=url.encode())

    toy_services.add("A text, so that the collection is there.")
    transport = httpx.ASGITransport(api_of(toy_services.services, read_url=read_url))
    async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=PATIENCE_S) as client:
        bodies = [{"collection": "library", "url": f"https://example.org/{number}"} for number in range(6)]
        tasks = [asyncio.create_task(client.post("/api/v1/documents", json=body)) for body in bodies]
        async with asyncio.timeout(PATIENCE_S):
            while running < FETCHES_OF_USER:
                await asyncio.sleep(0.01)
        posted = await client.post("/api/v1/documents", json={"collection": "library", "text": "Another text."})
        assert posted.status_code == 202
        may_end.set()
        assert {answer.status_code for answer in await asyncio.gather(*tasks)} == {202}
    assert most == FETCHES_OF_USER


async def test_a_turn_never_runs_without_a_slot() -> None:
    slots = FairSlots(SlotLimits(at_once=1, waiting=0, burst=0))
    async with slots.turn("first"):
        with pytest.raises(RuntimeError, match="refuse"):
            async with slots.turn("second"):
                pass
        assert slots.in_flight == 1
