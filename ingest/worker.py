"""Works off the ledger: claims a job, keeps its lease alive while the pipeline does it, and records how it ended.

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
from uuid import uuid4

from app.errors import CollectionPausedError, GircseError, LeaseLostError, UnavailableError
from app.ports import Catalog, JobListener
from app.types import Job
from ingest.pipeline import IngestPipeline

log = logging.getLogger(__name__)

DEFAULT_LEASE = timedelta(seconds=60)
_LOOK_S = 1.0  # how often a running job is looked up: a cancelled one ends within this, and the batch in hand
_STOP_LOOK_S = 0.2
_FIRST_RETRY_IN = timedelta(seconds=10)
_LONGEST_RETRY_IN = timedelta(minutes=10)


class StopRequestedError(Exception):
    """The worker is to stop before the job is done; what was embedded so far is kept in the index."""


class Worker:
    """`leave` is set while the job in hand is to be left: whoever does a long step for it can watch that.

    A job that is cancelled, paused or taken over writes nothing more: it is looked up every second, and before each
    batch is written. A batch that is being embedded cannot be interrupted; it is thrown away.
    """

    def __init__(
        self,
        *,
        catalog: Catalog,
        pipeline: IngestPipeline,
        owner: str,
        lease: timedelta = DEFAULT_LEASE,
        poll_s: float = 1.0,
        leave: threading.Event | None = None,
    ) -> None:
        self._catalog = catalog
        self._pipeline = pipeline
        self._owner = owner
        self._lease = lease
        self._poll_s = poll_s
        self._leave = leave or threading.Event()

    def run(self, stop: threading.Event) -> None:
        """Works until `stop` is set. A job that is then in hand is left between two batches and given back."""
        log.info("Worker %s started", self._owner)
        while not stop.is_set():
            try:
                with self._catalog.listening() as listener:
                    while not stop.is_set():
                        if not self.run_once(stop):
                            self._rest(listener, stop)
            except UnavailableError as error:
                log.warning("Worker %s waits: %s", self._owner, error)
                stop.wait(self._poll_s)
        log.info("Worker %s stopped", self._owner)

    def _rest(self, listener: JobListener, stop: threading.Event) -> None:
        """Until the listener hears of a job, else for the time between two polls."""
        until = time.monotonic() + self._poll_s
        while not stop.is_set() and (left_s := until - time.monotonic()) > 0:
            if listener.wait(min(left_s, _STOP_LOOK_S)):
                return

    def run_once(self, stop: threading.Event | None = None) -> bool:
        """Does one job. False when there is nothing to do now: no job is due, or a part that is needed is away."""
        job = self._catalog.claim(self._owner, lease=self._lease)
        if job is None:
            return False
        try:
            return self._do(job, stop or threading.Event())
        except LeaseLostError as error:
            log.info("Job %s was left: %s", job.id, error)
            self._catalog.release(job)
            return True

    def _do(self, job: Job, stop: threading.Event) -> bool:
        self._leave.clear()
        pulse = _Pulse(self._catalog, job, lease=self._lease, stop=stop, leave=self._leave)
        try:
            with pulse.beating():
                report = self._pipeline.run(job, heartbeat=pulse)
        except (LeaseLostError, CollectionPausedError, StopRequestedError) as error:
            log.info("Job %s was left: %s", job.id, error or "the worker stops")
            self._catalog.release(job)
        except UnavailableError as error:
            if stop.is_set() or self._leave.is_set():  # a step was interrupted for just that
                log.info("Job %s was left: %s", job.id, error)
                self._catalog.release(job)
                return True
            log.warning("Job %s is put off: %s", job.id, error)
            self._catalog.release(job, reason=str(error))
            return False
        except GircseError as error:  # its message is written for a person, and trying again would not help
            log.warning("Job %s failed: %s", job.id, error)
            self._catalog.fail(job, str(error), retry_in=None)
        except Exception as error:  # the one broad clause: a fault in one job must not end the worker
            incident = uuid4().hex[:8]
            log.exception("Job %s failed, incident %s", job.id, incident)
            reason = f"Unexpected fault (incident {incident} in the log): {type(error).__name__}: {error}"
            self._catalog.fail(job, reason, retry_in=retry_in(job.attempts))
        else:
            log.info("Job %s done: %s", job.id, report)
        return True


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
        self._done = threading.Event()

    def __call__(self, progress: float) -> None:
        if self._stop.is_set():
            raise StopRequestedError
        if self._verdict is not None:
            raise self._verdict
        self._progress = progress
        self._catalog.heartbeat(self._job, lease=self._lease, progress=progress)

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
