"""Ends a blocking wait once it takes too long or the caller must stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context

_LOOK_S = 0.05


class Watchdog:
    """Calls `kill` once a check raises, and so ends a wait of the caller: reads of pipes block, and only the death of
    the child ends them on every system. One thread serves all waits; it sleeps while there are none."""

    def __init__(self, kill: Callable[[], None], *, name: str) -> None:
        self._kill = kill
        self._look: Callable[[], None] | None = None
        self._reason: BaseException | None = None
        self._is_ended = False
        self._is_looking = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @contextmanager
    def watching(self, check: Callable[[], None]) -> Iterator[None]:
        """Calls `check` repeatedly, in the caller's context, until the block ends. Raises what `check` raised."""
        check()
        context = copy_context()
        with self._changed:
            self._look = lambda: context.run(check)
            if not self._is_looking:  # else the thread's next round takes it up: most documents are parsed by then
                self._changed.notify()
        try:
            yield
        finally:
            if (reason := self._end_of_watch()) is not None:
                raise reason

    def end(self) -> None:
        with self._changed:
            self._is_ended = True
            self._changed.notify()
        self._thread.join()

    def _end_of_watch(self) -> BaseException | None:
        with self._changed:
            self._look = None
            return self._reason

    def _run(self) -> None:
        with self._changed:
            while not self._is_ended:
                if self._look is None:
                    self._is_looking = False
                    self._changed.wait()
                    continue
                self._is_looking = True
                self._changed.wait(_LOOK_S)
                if self._look is not None and not self._is_ended:
                    self._try(self._look)

    def _try(self, look: Callable[[], None]) -> None:
        try:
            look()
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it again
            self._reason, self._look = error, None
            self._kill()
