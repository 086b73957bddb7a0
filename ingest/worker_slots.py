"""How many jobs a worker does at the same time, each in a thread; shared by the worker and the parts it calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

DEFAULT_SLOTS = 4  # large documents, or blocks of small ones
CPU_PATIENCE_S = 5.0
_LOOK_S = 0.1


@dataclass(slots=True)
class _InFlight:
    is_leaving: Callable[[], bool]
    is_read: bool = False


class WorkerSlots:
    """A slot is taken before its jobs are claimed. `is_leaving` answers for the jobs of the calling context: of the
    thread that does them, and of one that watches it.

    While the job of a slot is read, the next slot is given out only after `patience_s`: where the model runs on the
    CPU, jobs that are read at the same time keep it waiting, unless one of them takes long.
    """

    def __init__(self, count: int = 1, *, patience_s: float = 0.0) -> None:
        if count < 1:
            raise ValueError(f"A worker needs at least one slot, not {count}.")
        self.count = count
        self.patience_s = patience_s
        self._taken = 0
        self._at_model = 0  # slots whose jobs have been read
        self._changed_at = 0.0
        self._changed = threading.Condition()
        self._in_flight: ContextVar[_InFlight | None] = ContextVar("in_flight", default=None)

    @property
    def taken(self) -> int:
        return self._taken

    def take(self, *, timeout_s: float) -> bool:
        """Waits for a free slot. False when there was none in that time."""
        with self._changed:
            if not self._wait_until_free(timeout_s):
                return False
            self._change(1)
            return True

    def note_read(self) -> None:
        """The jobs of the calling context have come to the model; others may be read meanwhile."""
        held = self._in_flight.get()
        if held is not None and not held.is_read:
            self._note_read(held, True)

    def _note_read(self, held: _InFlight, is_read: bool) -> None:
        held.is_read = is_read
        with self._changed:
            self._at_model += 1 if is_read else -1
            self._changed.notify_all()

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
            self._changed.wait(min(left_s, _LOOK_S))  # no notification when `patience_s` is over
        return True

    def _is_free(self) -> bool:
        is_time = self._taken <= self._at_model or time.monotonic() - self._changed_at >= self.patience_s
        return self._taken < self.count and is_time

    def _change(self, by: int) -> None:
        self._taken += by
        self._changed_at = time.monotonic()

    @contextmanager
    def holding(self, is_leaving: Callable[[], bool]) -> Iterator[None]:
        """Until it ends, `is_leaving` tells whether the jobs of this context are to be left."""
        held = _InFlight(is_leaving)
        token = self._in_flight.set(held)
        try:
            yield
        finally:
            if held.is_read:
                self._note_read(held, False)
            self._in_flight.reset(token)

    def is_leaving(self) -> bool:
        """Whether the jobs of this context are to be left."""
        held = self._in_flight.get()
        return held is not None and held.is_leaving()
