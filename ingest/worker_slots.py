"""Places for what is done at the same time, each in a thread; shared by a worker and the parts that serve it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOOK_S = 0.1


class WorkerSlots:
    """A lane is taken before its jobs are claimed. A part asks for the jobs of the thread that it is called in.

    A second one and further ones are given out once those that are taken have been at work for `patience_s`: where the
    model runs on the CPU, whatever runs beside it costs it more than it brings, unless the one at work is a long one.
    """

    def __init__(self, count: int = 1, *, patience_s: float = 0.0) -> None:
        if count < 1:
            raise ValueError(f"A worker needs at least one lane, not {count}.")
        self.count = count
        self.patience_s = patience_s
        self._taken = 0
        self._changed_at = 0.0
        self._changed = threading.Condition()
        self._in_flight = threading.local()

    @property
    def taken(self) -> int:
        return self._taken

    def take(self, *, timeout_s: float) -> bool:
        """Waits for a free lane. False when there was none in that time."""
        with self._changed:
            if not self._wait_until_free(timeout_s):
                return False
            self._change(1)
            return True

    def give_back(self) -> None:
        with self._changed:
            self._change(-1)
            self._changed.notify_all()

    def wait_until_taken_is(self, count: int, *, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._taken <= count, timeout_s)

    def _wait_until_free(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not self._is_free():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            self._changed.wait(min(left_s, _LOOK_S))  # that time passes wakes nobody
        return True

    def _is_free(self) -> bool:
        is_time = self._taken == 0 or time.monotonic() - self._changed_at >= self.patience_s
        return self._taken < self.count and is_time

    def _change(self, by: int) -> None:
        self._taken += by
        self._changed_at = time.monotonic()

    @contextmanager
    def holding(self, is_leaving: Callable[[], bool]) -> Iterator[None]:
        """`is_leaving` tells whether the jobs that this thread has in hand until then are to be left."""
        self._in_flight.is_leaving = is_leaving
        try:
            yield
        finally:
            del self._in_flight.is_leaving

    def is_leaving(self) -> bool:
        """Whether the jobs that this thread has in hand are to be left."""
        ask: Callable[[], bool] | None = getattr(self._in_flight, "is_leaving", None)
        return ask is not None and ask()
