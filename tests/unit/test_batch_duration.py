"""How long a batch of documents may take, since a query that arrives waits for it."""

from __future__ import annotations

import pytest

from embedder.engine import scheduler as scheduling
from embedder.engine.limits import Limits
from embedder.engine.scheduler import Scheduler
from embedder.engine.work import Item, Priority, document_items
from embedder.text.prompts import PromptIds

SECONDS_PER_TEXT = 0.01
TOKENS = 20


@pytest.fixture
def scheduler() -> Scheduler:
    """It has learned what documents take: 25 of them fit into a quarter of a second."""
    found = Scheduler(Limits(batch_texts=64, batch_s=0.25))
    for count in (1, 10, 20):
        found.submit(documents(count))
        batch, _ = found.take()
        found.note_done(batch, SECONDS_PER_TEXT * count)
    return found


def documents(count: int, *, priority: Priority = Priority.DOCUMENT) -> list[Item]:
    prompts = [PromptIds((number, *range(1, TOKENS)), TOKENS) for number in range(1000, 1000 + count)]
    return document_items(prompts, ["a text"] * count, steps=1, priority=priority)


def ask(scheduler: Scheduler) -> None:
    scheduler.submit(documents(1, priority=Priority.QUERY))
    batch, _ = scheduler.take()
    scheduler.note_done(batch, SECONDS_PER_TEXT)


def test_it_is_full_while_nobody_asks(scheduler: Scheduler) -> None:
    scheduler.submit(documents(200))
    assert len(scheduler.take()[0]) == 64


def test_it_is_short_while_queries_come(scheduler: Scheduler) -> None:
    ask(scheduler)
    scheduler.submit(documents(200))
    assert 20 <= len(scheduler.take()[0]) <= 30


def test_it_is_never_tiny(scheduler: Scheduler) -> None:
    scheduler.submit(documents(20))
    batch, _ = scheduler.take()
    scheduler.note_done(batch, 60.0)  # the machine was busy
    ask(scheduler)
    scheduler.submit(documents(200))
    assert len(scheduler.take()[0]) == 16


def test_it_is_full_again_some_time_after_the_last_query(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(scheduler)
    now = scheduling.time.monotonic()
    monkeypatch.setattr(scheduling.time, "monotonic", lambda: now + 60)
    scheduler.submit(documents(200))
    assert len(scheduler.take()[0]) == 64
