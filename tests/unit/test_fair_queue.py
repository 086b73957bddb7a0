"""One user's page events delay mostly their own, however many they send."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import gradio as gr
import httpx
import pytest
from gradio.queueing import Event, EventQueue

from app.types.access import OPERATOR, Principal, Role
from ui.fair_queue import MAX_OF_USER, FairQueue
from ui.gradio_guard import GradioGuard, QueueSessions

ANNA, BEN = Principal("anna", Role.READER), Principal("ben", Role.READER)


def event(session: str, kind: str = "search") -> Event:
    return Event(session, SimpleNamespace(concurrency_id=kind), None, None)  # type: ignore[arg-type]


@pytest.fixture
def queue() -> Any:
    """Gradio's own, of a page without events."""
    with gr.Blocks(analytics_enabled=False) as site:
        site.queue(max_size=64)
    for kind in ("search", "answer"):
        site._queue.event_queue_per_concurrency_id[kind] = EventQueue(kind, 4)
    site._queue.active_jobs = [None] * 8
    return site._queue


def fair(queue: Any) -> FairQueue:
    return FairQueue(lambda: queue, owner_of=lambda session: session.partition("-")[0])


def order(queue: Any, kind: str = "search") -> list[str]:
    return [each.session_hash for each in queue.event_queue_per_concurrency_id[kind].queue]


def test_users_take_turns(queue: Any) -> None:
    queue.event_queue_per_concurrency_id["search"].queue += [event(f"anna-{number}") for number in range(3)]
    queue.event_queue_per_concurrency_id["search"].queue += [event("ben-0"), event("ben-1"), event("clara-0")]
    fair(queue).take_turns()
    assert order(queue) == ["anna-0", "ben-0", "clara-0", "anna-1", "ben-1", "anna-2"]


def test_running_events_count_as_turns(queue: Any) -> None:
    queue.active_jobs[:3] = [[event("anna-a")], [event("anna-b")], [event("ben-a", "answer")]]
    queue.event_queue_per_concurrency_id["search"].queue += [event("anna-0"), event("ben-0"), event("ben-1")]
    fair(queue).take_turns()
    assert order(queue) == ["ben-0", "ben-1", "anna-0"]
    assert len(queue) == 3


def test_a_user_fills_at_most_a_part_of_the_queue(queue: Any) -> None:
    half = MAX_OF_USER // 2
    queue.event_queue_per_concurrency_id["search"].queue += [event("anna-x") for _ in range(half)]
    queue.event_queue_per_concurrency_id["answer"].queue += [event("anna-y", "answer") for _ in range(half - 1)]
    assert fair(queue).has_room("anna")
    fair_queue = fair(queue)
    with fair_queue.joining("anna"):
        assert not fair_queue.has_room("anna")
    assert fair_queue.has_room("anna")
    queue.active_jobs[0] = [event("anna-z")]
    assert not fair(queue).has_room("anna")
    assert fair(queue).has_room("ben")


@pytest.mark.parametrize(("principal", "status"), [(ANNA, 429), (BEN, 200), (OPERATOR, 200)])
async def test_further_events_are_refused(queue: Any, principal: Principal, status: int) -> None:
    """Without access control everybody is the operator, and nobody else is there."""
    sessions = QueueSessions()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    guard = GradioGuard(app, pages=[], sessions=sessions, queue=FairQueue(lambda: queue, owner_of=sessions.owner_of))
    for number in range(MAX_OF_USER):
        assert sessions.belongs_to(f"session {number}", ANNA)
        queue.event_queue_per_concurrency_id["search"].queue.append(event(f"session {number}"))

    async def with_principal(scope: Any, receive: Any, send: Any) -> None:
        await guard({**scope, "state": {"principal": principal}}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(with_principal), base_url="http://test") as client:
        body = json.dumps({"session_hash": f"of {principal.name}", "fn_index": 1, "data": []})
        answer = await client.post("/gradio_api/queue/join", content=body)
        assert answer.status_code == status
