"""Limits how many jobs a worker runs at once, each in a thread. The worker and the parts that it calls share it."""

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
    """Counts taken slots. A slot is taken before its jobs are claimed.

    `holding` binds an `is_leaving` callback to the calling context; `is_leaving` calls the one of its context.

    While the jobs of a slot are being parsed, the next slot is given out only after `patience_s`. Where the model runs
    on the CPU, parsing several jobs at once would starve it, unless one of them takes long.
    """

    def __init__(self, count: int = 1, *, patience_s: float = 0.0) -> None:
        if count < 1:
            raise ValueError(f"A worker needs at least one slot, not {count}.")
        self.count = count
        self.patience_s = patience_s
        self._taken = 0
        self._at_model = 0  # slots whose jobs have been parsed
        self._changed_at = 0.0
        self._changed = threading.Condition()
        self._in_flight: ContextVar[_InFlight | None] = ContextVar("in_flight", default=None)

    @property
    def taken(self) -> int:
        return self._taken

    def take(self, *, timeout_s: float) -> bool:
        """Waits up to `timeout_s` for a free slot and takes it. False if none became free."""
        with self._changed:
            if not self._wait_until_free(timeout_s):
                return False
            self._change(1)
            return True

    def note_read(self) -> None:
        """Records that the jobs of this context are parsed and have reached the model, so that others may be parsed."""
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

    def wait_for_taken_count(self, count: int, *, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._taken <= count, timeout_s)

    def _wait_until_free(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not self._is_free():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            self._changed.wait(min(left_s, _LOOK_S))  # nothing notifies when `patience_s` is over
        return True

    def _is_free(self) -> bool:
        is_time = self._taken <= self._at_model or time.monotonic() - self._changed_at >= self.patience_s
        return self._taken < self.count and is_time

    def _change(self, by: int) -> None:
        self._taken += by
        self._changed_at = time.monotonic()

    @contextmanager
    def holding(self, is_leaving: Callable[[], bool]) -> Iterator[None]:
        """Within the block, `is_leaving` of this context calls the given function."""
        held = _InFlight(is_leaving)
        token = self._in_flight.set(held)
        try:
            yield
        finally:
            if held.is_read:
                self._note_read(held, False)
            self._in_flight.reset(token)

    def is_leaving(self) -> bool:
        """Whether the jobs of this context must stop: lost, or the worker stops. False outside `holding`."""
        held = self._in_flight.get()
        return held is not None and held.is_leaving()
