"""Places for jobs that are done at the same time, each in a thread; shared by a worker and the parts that serve it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Lanes:
    """A lane is taken before its job is claimed. A part asks for the job of the thread that it is called in."""

    def __init__(self, count: int = 1) -> None:
        if count < 1:
            raise ValueError(f"A worker needs at least one lane, not {count}.")
        self.count = count
        self._taken = 0
        self._changed = threading.Condition()
        self._in_hand = threading.local()

    @property
    def taken(self) -> int:
        return self._taken

    def take(self, *, timeout_s: float) -> bool:
        """Waits for a free lane. False when there was none in that time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._taken < self.count, timeout_s):
                return False
            self._taken += 1
            return True

    def give_back(self) -> None:
        with self._changed:
            self._taken -= 1
            self._changed.notify_all()

    def wait_until_taken_is(self, count: int, *, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._taken <= count, timeout_s)

    @contextmanager
    def holding_job(self) -> Iterator[threading.Event]:
        """Yields what is to be set when the job that this thread now has in hand is to be left."""
        self._in_hand.leave = leave = threading.Event()
        try:
            yield leave
        finally:
            del self._in_hand.leave

    def is_leaving(self) -> bool:
        """Whether the job that this thread has in hand is to be left."""
        leave: threading.Event | None = getattr(self._in_hand, "leave", None)
        return leave is not None and leave.is_set()
