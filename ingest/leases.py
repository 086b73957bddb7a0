"""Keeps the leases of jobs that run together, and knows which were lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Self

from app.errors import LeaseLostError, UnavailableError
from app.ports.ledger import ShardLedger
from app.types.documents import Job

log = logging.getLogger(__name__)

_LOOK_S = 1.0  # interval of lookups: a cancelled job ends after this and the batch in flight
_PROGRESS_S = 0.5  # least time between two writes of progress; in between a job is only looked up
_FRESH_S = 0.1  # reuse a lookup this recent: short documents take many steps in that time

LeaseListener = Callable[[set[str], float], None]  # ids of lost jobs, seconds until the leases of the others end


class StopRequestedError(Exception):
    """The worker must stop before its jobs are done. What it has embedded stays in the index."""


class LeaseKeeper:
    """Renews leases in a thread, every third of their duration, and writes progress within a second, even while a batch
    takes minutes to compute. While the catalog is unavailable, leases are not renewed and expire by themselves."""

    def __init__(self, ledger: ShardLedger, jobs: Iterable[Job], *, lease: timedelta) -> None:
        self._ledger = ledger
        self._lease = lease
        self._progress = dict.fromkeys(jobs, 0.0)
        self._written = dict(self._progress)
        self._lost: set[str] = set()
        self._listener: LeaseListener | None = None
        self._lock = threading.Lock()
        self._announcing = (
            threading.Lock()
        )  # announcements run one at a time, so that none arrives after `listen(None)`
        self._prolonged_at = self._looked_at = time.monotonic()  # the jobs were claimed just now
        self._held_until = self._prolonged_at + lease.total_seconds()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="leases", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def listen(self, listener: LeaseListener | None) -> None:
        """Calls `listener` now, and after each lookup from now on. Replaces the former listener; None removes it."""
        with self._announcing:
            self._listener = listener
        self._announce()

    def is_lost(self, job: Job) -> bool:
        with self._lock:
            return job.id in self._lost

    def are_all_lost(self) -> bool:
        with self._lock:
            return not self._progress

    def advance(self, job: Job, progress: float) -> None:
        with self._lock:
            if job in self._progress:
                self._progress[job] = progress

    def confirm(self, job: Job, progress: float) -> None:
        """Records progress, after a lookup if the last one is old. Raises LeaseLostError when the lease was lost."""
        self.advance(job, progress)
        now = time.monotonic()
        if now - self._prolonged_at > min(_PROGRESS_S, self._lease.total_seconds() / 3):
            self._look(prolong=True)
        elif now - self._looked_at > _FRESH_S:
            self._look(prolong=False)
        if self.is_lost(job):
            raise LeaseLostError(f"Job {job.id} was cancelled, paused or taken over since it was claimed.")

    def drop(self, job: Job) -> None:
        """Stops renewing the lease of a finished job."""
        with self._lock:
            self._progress.pop(job, None)

    def _keep(self) -> None:
        beat_s = self._lease.total_seconds() / 3
        while not self._done.wait(min(_LOOK_S, beat_s)):
            try:
                self._look(prolong=time.monotonic() - self._prolonged_at >= beat_s or self._has_advanced())
                self._announce()
            except UnavailableError as error:
                log.warning("The leases of %d jobs could not be looked up or prolonged: %s", len(self._progress), error)

    def _has_advanced(self) -> bool:
        with self._lock:
            return any(self._written[job] != progress for job, progress in self._progress.items())

    def _look(self, *, prolong: bool) -> None:
        with self._lock:
            current = dict(self._progress)
        begun = time.monotonic()
        held = self._ledger.heartbeat(current, lease=self._lease) if prolong else self._ledger.held(current)
        with self._lock:
            self._looked_at = begun
            if prolong:
                self._prolonged_at, self._held_until = begun, begun + self._lease.total_seconds()
                self._written.update(current)
            for job in current:
                if job.id not in held and job in self._progress:  # else it was dropped meanwhile
                    del self._progress[job]
                    self._lost.add(job.id)

    def _announce(self) -> None:
        with self._announcing:
            if self._listener is None:
                return
            with self._lock:
                lost = set(self._lost)
            self._listener(lost, self._held_until - time.monotonic())
