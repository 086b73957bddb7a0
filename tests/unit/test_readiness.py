"""/readyz while parts hang: it says so in time, asks them side by side, and is right again when they are back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from patience import PATIENCE_S

from app.api.health import health_routes
from app.runtime.readiness import MOST_HANGING, Readiness, WhileBusy


class Part:
    """Answers once `unblocked` is set."""

    def __init__(self) -> None:
        self.unblocked = threading.Event()
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        assert self.unblocked.wait(PATIENCE_S)
        return True


@pytest.fixture
def part() -> Iterator[Part]:
    part = Part()
    yield part
    part.unblocked.set()


async def test_parts_are_asked_side_by_side() -> None:
    """One after the other, the first would wait for the second in vain."""
    both = threading.Barrier(2, timeout=PATIENCE_S)
    readiness = Readiness({"one": lambda: both.wait() >= 0, "other": lambda: both.wait() >= 0}, limit_s=PATIENCE_S)
    assert await readiness.ask() == {"one": True, "other": True}


async def test_parts_that_hang_are_not_waited_for(part: Part) -> None:
    app = FastAPI()
    app.include_router(health_routes({"well": lambda: True, "one": part, "other": lambda: part()}))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["checks"] == {"well": True, "one": False, "other": False}
        assert (await client.get("/healthz")).status_code == 200
        part.unblocked.set()
        assert (await client.get("/readyz")).json() == {
            "status": "ready",
            "checks": {"well": True, "one": True, "other": True},
            "damaged": {},
        }


async def test_a_part_that_hangs_takes_so_many_threads_and_no_more(part: Part) -> None:
    readiness = Readiness({"part": part}, limit_s=0.01)
    for _ in range(MOST_HANGING + 5):
        assert await readiness.ask() == {"part": False}
    assert part.asked == MOST_HANGING
    part.unblocked.set()
    answers = Readiness({"part": part})
    assert await answers.ask() == {"part": True}


async def test_who_asks_meanwhile_shares_the_answer(part: Part) -> None:
    readiness = Readiness({"part": part}, limit_s=30)
    threading.Timer(0.2, part.unblocked.set).start()
    assert await asyncio.gather(readiness.ask(), readiness.ask()) == [{"part": True}, {"part": True}]
    assert part.asked == 1


@pytest.mark.parametrize("error", [RuntimeError("CUDA error"), OSError("gone"), KeyError("an error of ours")])
async def test_a_check_that_fails_is_no(error: Exception) -> None:
    def fail() -> bool:
        raise error

    assert await Readiness({"part": fail, "well": lambda: True}).ask() == {"part": False, "well": True}


def test_what_is_at_work_is_well_until_it_takes_too_long(part: Part) -> None:
    assert WhileBusy(part, patience_s=0.01, busy_s=60)()
    impatient = WhileBusy(part, patience_s=0.05, busy_s=0.01)
    assert not impatient()
    part.unblocked.set()
    assert WhileBusy(part)()
    assert not WhileBusy(lambda: False)()
