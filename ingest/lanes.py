"""Places for what is done at the same time, each in a thread; shared by a worker and the parts that serve it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Lanes:
    """A lane is taken before its jobs are claimed. A part asks for the jobs of the thread that it is called in."""

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
    def holding(self, is_leaving: Callable[[], bool]) -> Iterator[None]:
        """`is_leaving` tells whether the jobs that this thread has in hand until then are to be left."""
        self._in_hand.is_leaving = is_leaving
        try:
            yield
        finally:
            del self._in_hand.is_leaving

    def is_leaving(self) -> bool:
        """Whether the jobs that this thread has in hand are to be left."""
        ask: Callable[[], bool] | None = getattr(self._in_hand, "is_leaving", None)
        return ask is not None and ask()
