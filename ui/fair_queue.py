"""Shares Gradio's queue of page events among users, so that one who sends very many delays mostly themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, Protocol

MAX_OF_USER = 32  # waiting and running events; Gradio's queue holds 64


class Queued(Protocol):
    """An event of Gradio's queue."""

    session_hash: str
    concurrency_id: str


class FairQueue:
    """`find_queue` returns Gradio's queue, which it makes anew; `owner_of` the user of a session. Use it from the event
    loop of the queue only.
    """

    def __init__(self, find_queue: Callable[[], Any], *, owner_of: Callable[[str], str]) -> None:
        self._find_queue = find_queue
        self._owner_of = owner_of
        self._joining: Counter[str] = Counter()  # by user, requests that have not reached Gradio's queue yet

    @contextmanager
    def joining(self, owner: str) -> Iterator[None]:
        """The request of a user that adds one event to the queue. Afterwards users take turns anew."""
        self._joining[owner] += 1
        try:
            yield
        finally:
            self._joining[owner] -= 1
            if not self._joining[owner]:
                del self._joining[owner]
            self.take_turns()

    def has_room(self, owner: str) -> bool:
        waiting = (event for queue in self._queues().values() for event in queue.queue)
        own = (event for event in chain(waiting, self._running()) if self._owner_of(event.session_hash) == owner)
        return sum(1 for _ in own) + self._joining[owner] < MAX_OF_USER

    def take_turns(self) -> None:
        """Reorder waiting events: the first of each user, then the second of each, and so on. Running ones count."""
        running = Counter((event.concurrency_id, self._owner_of(event.session_hash)) for event in self._running())
        for name, queue in self._queues().items():
            turns: Counter[str] = Counter({owner: count for (of, owner), count in running.items() if of == name})
            ranked = []
            for event in queue.queue:
                owner = self._owner_of(event.session_hash)
                ranked.append((turns[owner], event))
                turns[owner] += 1
            queue.queue[:] = [event for _, event in sorted(ranked, key=lambda pair: pair[0])]

    def _queues(self) -> dict[str, Any]:
        queues: dict[str, Any] = self._find_queue().event_queue_per_concurrency_id
        return queues

    def _running(self) -> Iterator[Queued]:
        for events in self._find_queue().active_jobs:
            yield from events or ()
