"""Works off the ledger: claims jobs, keeps their leases alive while the pipeline does them, and records how they ended.

Runs in a thread of a serving process or as a process of its own; any number of workers may share one catalog.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from app.errors import CollectionPausedError, GircseError, LeaseLostError, UnavailableError
from app.ports import Catalog, JobListener
from app.types import Job
from ingest.incidents import log_incident
from ingest.lanes import Lanes
from ingest.pipeline import IngestPipeline

log = logging.getLogger(__name__)

DEFAULT_LEASE = timedelta(seconds=60)
_LOOK_S = 1.0  # how often a running job is looked up: a cancelled one ends within this, and the batch in hand
_STOP_LOOK_S = 0.2
_PROGRESS_S = 0.5  # how often progress is written down; in between a job is only looked up
_FRESH_S = 0.1  # what was looked up within this is still true: a short job makes many steps in it
_SHARED_ATTEMPTS = 2  # what ended its worker that often is done alone: it may be that which takes the others with it
_FIRST_RETRY_IN = timedelta(seconds=10)
_LONGEST_RETRY_IN = timedelta(minutes=10)


class StopRequestedError(Exception):
    """The worker is to stop before the job is done; what was embedded so far is kept in the index."""


class Worker:
    """Does as many jobs at once as there are lanes, each in a thread of its own; one that fails is no other's matter.

    A job that is cancelled, paused or taken over writes nothing more: it is looked up every second, and before each
    batch is written. Its lane then tells whoever does a long step for it. A batch that is being embedded cannot be
    interrupted; it is thrown away.
    """

    def __init__(
        self,
        *,
        catalog: Catalog,
        pipeline: IngestPipeline,
        owner: str,
        lease: timedelta = DEFAULT_LEASE,
        poll_s: float = 1.0,
        lanes: Lanes | None = None,
    ) -> None:
        self._catalog = catalog
        self._pipeline = pipeline
        self._owner = owner
        self._lease = lease
        self._poll_s = poll_s
        self._lanes = lanes or Lanes()
        self._must_rest = threading.Event()  # a job was put off: the next would find the same part away

    def run(self, stop: threading.Event) -> None:
        """Works until `stop` is set. Jobs that are then in hand are left between two batches and given back."""
        log.info("Worker %s started", self._owner)
        while not stop.is_set():
            try:
                with self._catalog.listening() as listener:
                    while not stop.is_set():
                        if not self._fill_lane(stop):
                            self._rest(listener, stop)
            except UnavailableError as error:
                log.warning("Worker %s waits: %s", self._owner, error)
                stop.wait(self._poll_s)
        while not self._lanes.wait_until_taken_is(0, timeout_s=_LOOK_S):
            pass
        log.info("Worker %s stopped", self._owner)

    def run_once(self, stop: threading.Event | None = None) -> bool:
        """Does one job. False when there is nothing to do now: no job is due, or a part that is needed is away."""
        job = self._catalog.claim(self._owner, lease=self._lease)
        return job is not None and self._finish(job, stop or threading.Event())

    def _rest(self, listener: JobListener, stop: threading.Event) -> None:
        """Until the listener hears of a job, else for the time between two polls."""
        until = time.monotonic() + self._poll_s
        while not stop.is_set() and (left_s := until - time.monotonic()) > 0:
            if listener.wait(min(left_s, _STOP_LOOK_S)):
                return

    def _fill_lane(self, stop: threading.Event) -> bool:
        """Waits a moment for a free lane and lets it do a job. False when there is nothing to do now."""
        if self._must_rest.is_set():
            self._must_rest.clear()
            return False
        if not self._lanes.take(timeout_s=_STOP_LOOK_S):
            return True
        job = None
        try:
            job = self._catalog.claim(self._owner, lease=self._lease)
        finally:
            if job is None:
                self._lanes.give_back()
        if job is None:
            return False
        is_alone = job.attempts > _SHARED_ATTEMPTS
        thread = threading.Thread(target=self._run_lane, args=(job, stop, is_alone), name=f"job-{job.id}", daemon=True)
        thread.start()
        if is_alone:
            thread.join()
        return True

    def _run_lane(self, job: Job, stop: threading.Event, is_alone: bool) -> None:
        try:
            if not self._finish(job, stop, is_alone=is_alone):
                self._must_rest.set()
        except UnavailableError as error:
            log.warning("Job %s was dropped, and its lease ends: %s", job.id, error)
            self._must_rest.set()
        finally:
            self._lanes.give_back()

    def _finish(self, job: Job, stop: threading.Event, *, is_alone: bool = False) -> bool:
        """False when a part that is needed is away."""
        try:
            with self._lanes.holding_job() as leave:
                pulse = _Pulse(self._catalog, job, lease=self._lease, stop=stop, leave=leave)
                return self._do(job, pulse, is_alone=is_alone)
        except LeaseLostError as error:
            log.info("Job %s was left: %s", job.id, error)
            self._catalog.release(job)
            return True

    def _do(self, job: Job, pulse: _Pulse, *, is_alone: bool) -> bool:
        try:
            with pulse.beating():
                if is_alone:
                    self._wait_until_alone(pulse)
                report = self._pipeline.run(job, heartbeat=pulse)
        except (LeaseLostError, CollectionPausedError, StopRequestedError) as error:
            log.info("Job %s was left: %s", job.id, error or "the worker stops")
            self._catalog.release(job)
        except UnavailableError as error:
            if pulse.is_leaving:  # a step was interrupted for just that
                log.info("Job %s was left: %s", job.id, error)
                self._catalog.release(job)
                return True
            log.warning("Job %s is put off: %s", job.id, error)
            self._catalog.release(job, reason=str(error))
            return False
        except GircseError as error:  # its message is written for a person, and trying again would not help
            log.warning("Job %s failed: %s", job.id, error)
            self._catalog.fail(job, str(error), retry_in=None)
        except Exception as error:  # noqa: BLE001 - the one broad clause: a fault in one job must not end the worker
            self._catalog.fail(job, log_incident(log, job.id, error), retry_in=retry_in(job.attempts))
        else:
            log.info("Job %s done: %s", job.id, report)
        return True

    def _wait_until_alone(self, pulse: _Pulse) -> None:
        while not self._lanes.wait_until_taken_is(1, timeout_s=_STOP_LOOK_S):
            pulse.check()


class _Pulse:
    """Prolongs the lease: by a thread every third of it, and whenever the pipeline reports progress.

    The thread also looks every second whether the job is still to be done, and sets `leave` when it is not.
    """

    def __init__(
        self, catalog: Catalog, job: Job, *, lease: timedelta, stop: threading.Event, leave: threading.Event
    ) -> None:
        self._catalog = catalog
        self._job = job
        self._lease = lease
        self._stop = stop
        self._leave = leave
        self._verdict: LeaseLostError | CollectionPausedError | None = None
        self._progress = 0.0
        self._written_at = self._looked_at = time.monotonic()  # it was claimed just now
        self._done = threading.Event()

    def __call__(self, progress: float) -> None:
        self.check()
        self._progress = progress
        now = time.monotonic()
        if now - self._written_at > min(_PROGRESS_S, self._lease.total_seconds() / 3):
            self._catalog.heartbeat(self._job, lease=self._lease, progress=progress)
            self._written_at = self._looked_at = now
        elif now - self._looked_at > _FRESH_S:
            self._catalog.check_lease(self._job)
            self._looked_at = now

    @property
    def is_leaving(self) -> bool:
        return self._stop.is_set() or self._leave.is_set()

    def check(self) -> None:
        """Raises when the job is known to be left."""
        if self._stop.is_set():
            raise StopRequestedError
        if self._verdict is not None:
            raise self._verdict

    @contextmanager
    def beating(self) -> Iterator[None]:
        thread = threading.Thread(target=self._beat, name=f"pulse-{self._job.id}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()

    def _beat(self) -> None:
        beat_s = self._lease.total_seconds() / 3
        last_beat = time.monotonic()
        while not self._done.wait(min(_LOOK_S, beat_s)):
            try:
                if time.monotonic() - last_beat < beat_s:
                    self._catalog.check_lease(self._job)
                    continue
                self._catalog.heartbeat(self._job, lease=self._lease, progress=self._progress)
                last_beat = time.monotonic()
            except (LeaseLostError, CollectionPausedError) as error:
                self._verdict = error  # the pipeline learns it at its next report of progress
                self._leave.set()
                return
            except UnavailableError as error:
                log.warning("The lease of job %s could not be looked up or prolonged: %s", self._job.id, error)


def retry_in(attempts: int) -> timedelta:
    """The pause after the n-th failed attempt: 10 s, 20 s, 40 s … at most 10 minutes."""
    return min(_LONGEST_RETRY_IN, _FIRST_RETRY_IN * 2 ** min(attempts - 1, 16))


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set. To be called from the main thread of a worker process."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
