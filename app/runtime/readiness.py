"""Checks in parallel whether the parts of the application work, with a timeout.

The check of a hanging part continues in its own thread; after the timeout nobody waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait

LIMIT_S = 1.5
MOST_HANGING = 8  # hanging checks per part; no further one starts until one of them has ended

_log = logging.getLogger(__name__)

Check = Callable[[], bool]


class Readiness:
    def __init__(self, checks: Mapping[str, Check], *, limit_s: float = LIMIT_S) -> None:
        self._probes = {name: _Probe(name, check, stale_s=limit_s) for name, check in checks.items()}
        self._limit_s = limit_s

    async def ask(self) -> dict[str, bool]:
        """Runs all checks. A part whose check hangs counts as not working."""
        checks = {name: probe.begin() for name, probe in self._probes.items()}
        waiting = [asyncio.wrap_future(future) for future in checks.values() if future is not None]
        if waiting:
            await asyncio.wait(waiting, timeout=self._limit_s)
        return {name: future is not None and future.done() and future.result() for name, future in checks.items()}


class WhileBusy:
    """The check of a part that handles one call at a time. A check that waits for another call counts as success for up
    to `busy_s`."""

    def __init__(self, check: Check, *, patience_s: float = LIMIT_S / 2, busy_s: float = 60) -> None:
        self._probe = _Probe("work", check, stale_s=busy_s)
        self._patience_s = patience_s
        self._busy_s = busy_s

    def __call__(self) -> bool:
        future = self._probe.begin()
        if future is None:
            return False
        wait([future], self._patience_s)
        return future.result() if future.done() else self._probe.running_s < self._busy_s


class _Probe:
    """Runs a check in a thread. While one runs that is younger than `stale_s`, further calls share its result."""

    def __init__(self, name: str, check: Check, *, stale_s: float) -> None:
        self._name = name
        self._check = check
        self._stale_s = stale_s
        self._lock = threading.Lock()
        self._running: list[tuple[float, Future[bool]]] = []  # start time and result, oldest first

    def begin(self) -> Future[bool] | None:
        """Returns the result of a running or new check; None if too many checks hang already."""
        with self._lock:
            self._running = [running for running in self._running if not running[1].done()]
            if self._running and time.monotonic() - self._running[-1][0] < self._stale_s:
                return self._running[-1][1]
            if len(self._running) >= MOST_HANGING:
                return None
            future: Future[bool] = Future()
            self._running.append((time.monotonic(), future))
        threading.Thread(target=self._ask, args=(future,), name=f"check-{self._name}", daemon=True).start()
        return future

    @property
    def running_s(self) -> float:
        """Age of the oldest running check; 0 if there is none."""
        with self._lock:
            began = [began for began, future in self._running if not future.done()]
        return time.monotonic() - began[0] if began else 0.0

    def _ask(self, future: Future[bool]) -> None:
        try:
            is_well = self._check()
        except Exception:  # noqa: BLE001 - the outermost handler of this thread: the caller must get a result
            _log.exception("The check of %s failed", self._name)
            is_well = False
        future.set_result(is_well)
