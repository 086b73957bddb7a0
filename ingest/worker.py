"""Works off the ledger: claims jobs, keeps their leases alive while the pipeline does them, and records how they ended.

Runs in a thread of a serving process or as a process of its own; any number of workers may share one catalog.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from app.errors import GircseError, LeaseLostError, UnavailableError
from app.ports.ledger import JobListener, Ledger
from app.ports.observer import SILENT, Observer
from app.types.documents import Job, JobKind
from ingest.incidents import log_incident
from ingest.leases import LeaseKeeper
from ingest.pipeline import IngestPipeline
from ingest.points import IngestReport
from ingest.worker_slots import WorkerSlots

log = logging.getLogger(__name__)

DEFAULT_LEASE = timedelta(seconds=60)
DEFAULT_BLOCK = 128  # small documents that are ingested together; the next are read while the model has these
SMALL_BYTES = 8_192
_STOP_LOOK_S = 0.2
_SHARED_ATTEMPTS = 2  # a job whose workers died this often runs alone: it may be the cause
_SUSPECTS = 8  # jobs whose worker died once run in blocks smaller by this factor: fewer are suspected twice
_FIRST_RETRY_IN = timedelta(seconds=10)
_LONGEST_RETRY_IN = timedelta(minutes=10)


class StopRequestedError(Exception):
    """The worker is to stop before the job is done; what was embedded so far is kept in the index."""


class Worker:
    """Does one job, or a block of small documents, per worker slot, each slot in a thread of its own.

    A job that fails does not stop the others. A job that is cancelled, paused or taken over writes nothing more: its
    lease is checked every second and before each batch is written, and long steps ask `WorkerSlots.is_leaving`. A batch
    that is being embedded cannot be interrupted; its vectors are discarded.
    """

    def __init__(
        self,
        *,
        catalog: Ledger,
        pipeline: IngestPipeline,
        owner: str,
        lease: timedelta = DEFAULT_LEASE,
        poll_s: float = 1.0,
        slots: WorkerSlots | None = None,
        block: int = DEFAULT_BLOCK,
        observer: Observer = SILENT,
        when_idle: Callable[[], None] = lambda: None,
    ) -> None:
        """`when_idle` is called once each time that nothing is left to do."""
        self._observer = observer
        self._when_idle = when_idle
        self._has_worked = False
        self._catalog = catalog
        self._pipeline = pipeline
        self._owner = owner
        self._lease = lease
        self._poll_s = poll_s
        self._slots = slots or WorkerSlots()
        self._block = block
        self._must_rest = threading.Event()  # a job was put off: the next would find the same part unavailable

    def run(self, stop: threading.Event) -> None:
        """Works until `stop` is set. Jobs in flight are then left between two batches and released."""
        log.info("Worker %s started", self._owner)
        while not stop.is_set():
            try:
                with self._catalog.listening() as listener:
                    while not stop.is_set():
                        if not self._fill_slot(stop):
                            self._rest(listener, stop)
            except UnavailableError as error:
                log.warning("Worker %s waits: %s", self._owner, error)
                stop.wait(self._poll_s)
        while not self._slots.wait_until_taken_is(0, timeout_s=_STOP_LOOK_S):
            pass
        log.info("Worker %s stopped", self._owner)

    def run_once(self, stop: threading.Event | None = None) -> bool:
        """Does a job, or a block of them. False when none is due, or a part is unavailable."""
        jobs = self._claim()
        return bool(jobs) and self._finish(jobs, stop or threading.Event())

    def _rest(self, listener: JobListener, stop: threading.Event) -> None:
        """Until the listener hears of a job, else for the time between two polls."""
        if self._has_worked and self._slots.taken == 0:
            self._has_worked = False
            self._when_idle()
        until = time.monotonic() + self._poll_s
        while not stop.is_set() and (left_s := until - time.monotonic()) > 0:
            if listener.wait(min(left_s, _STOP_LOOK_S)):
                return

    def _fill_slot(self, stop: threading.Event) -> bool:
        """Waits a moment for a free slot and starts a job in it. False when no job is due."""
        if self._must_rest.is_set():
            self._must_rest.clear()
            return False
        if not self._slots.take(timeout_s=_STOP_LOOK_S):
            return True
        jobs: list[Job] = []
        try:
            jobs = self._claim()
        finally:
            if not jobs:
                self._slots.give_back()
        if not jobs:
            return False
        self._has_worked = True
        is_alone = jobs[0].attempts > _SHARED_ATTEMPTS
        name = f"job-{jobs[0].id}"
        thread = threading.Thread(target=self._run_slot, args=(jobs, stop, is_alone), name=name, daemon=True)
        thread.start()
        if is_alone:
            thread.join()
        return True

    def _claim(self) -> list[Job]:
        job = self._catalog.claim(self._owner, lease=self._lease)
        if job is None:
            return []
        size = self._block if job.attempts == 1 else self._block // _SUSPECTS
        if job.kind is not JobKind.INGEST or job.attempts > _SHARED_ATTEMPTS or size <= 1:
            return [job]
        try:
            others = self._catalog.claim_batch(
                job,
                self._owner,
                limit=size - 1,
                max_bytes=SMALL_BYTES,
                max_attempts=job.attempts,
                lease=self._lease,
            )
        except UnavailableError as error:
            log.warning("Job %s is done without others like it: %s", job.id, error)
            others = []
        return [job, *others]

    def _run_slot(self, jobs: list[Job], stop: threading.Event, is_alone: bool) -> None:
        try:
            if not self._finish(jobs, stop, is_alone=is_alone):
                self._must_rest.set()
        except UnavailableError as error:
            log.warning("Job %s was dropped, and its lease ends: %s", jobs[0].id, error)
            self._must_rest.set()
        finally:
            self._slots.give_back()

    def _finish(self, jobs: list[Job], stop: threading.Event, *, is_alone: bool = False) -> bool:
        """False when a part that is needed is unavailable."""
        leases = LeaseKeeper(self._catalog, jobs, lease=self._lease)
        with leases, self._slots.holding(leases.are_all_lost):
            in_flight = _InFlight(self._catalog, leases, stop)
            if is_alone:
                self._wait_until_alone(jobs, in_flight)
            outcomes = self._run_together(jobs, in_flight) if len(jobs) > 1 else {}
            recorded = [self._record_outcome(job, in_flight, outcomes.get(job.id)) for job in jobs]  # all, before all()
            return all(recorded)

    def _run_together(self, jobs: list[Job], in_flight: _InFlight) -> dict[str, IngestReport | Exception]:
        """Empty when they are to be run one by one, so that the error is recorded for the document that caused it."""
        try:
            with self._observer.stage("ingest.block"):
                return dict(self._pipeline.run_block(jobs, heartbeat=in_flight.confirm))
        except (StopRequestedError, UnavailableError) as error:
            return {job.id: error for job in jobs}
        except Exception as error:  # noqa: BLE001 - raised again by the job that caused it
            log.info("%d documents are done one by one: %s", len(jobs), error)
            return {}

    def _record_outcome(self, job: Job, in_flight: _InFlight, outcome: IngestReport | Exception | None) -> bool:
        """Records how the job ended; one without an outcome is run. False when a part that is needed is unavailable."""
        try:
            return self._record(job, in_flight, outcome)
        except LeaseLostError as error:
            log.info("Job %s was left: %s", job.id, error)
            self._catalog.release(job)
            return True

    def _record(self, job: Job, in_flight: _InFlight, outcome: IngestReport | Exception | None) -> bool:
        try:
            if isinstance(outcome, Exception):
                raise outcome
            report = outcome or self._run(job, in_flight)
        except (LeaseLostError, StopRequestedError) as error:
            log.info("Job %s was left: %s", job.id, error or "the worker stops")
            self._catalog.release(job)
        except UnavailableError as error:
            if in_flight.is_leaving(job):  # a step was interrupted for just that
                log.info("Job %s was left: %s", job.id, error)
                self._catalog.release(job)
                return True
            log.warning("Job %s is put off: %s", job.id, error)
            self._catalog.release(job, reason=str(error))
            return False
        except GircseError as error:  # its message is for the user, and a retry would not help
            log.warning("Job %s failed: %s", job.id, error)
            self._catalog.fail(job, str(error), retry_in=None)
        except Exception as error:  # noqa: BLE001 - the one broad clause: an error in one job must not end the worker
            self._catalog.fail(job, log_incident(log, job.id, error), retry_in=retry_in(job.attempts))
        else:
            log.info("Job %s done: %s", job.id, report)
        return True

    def _run(self, job: Job, in_flight: _InFlight) -> IngestReport:
        with self._observer.stage("ingest.job"):
            return self._pipeline.run(job, heartbeat=partial(in_flight.confirm, job))

    def _wait_until_alone(self, jobs: list[Job], in_flight: _InFlight) -> None:
        """Until no other slot is taken, or the job is to be left; its first heartbeat says so."""
        while not self._slots.wait_until_taken_is(1, timeout_s=_STOP_LOOK_S):
            if any(in_flight.is_leaving(job) for job in jobs):
                return


class _InFlight:
    """The jobs of one slot: their leases, until the worker stops."""

    def __init__(self, catalog: Ledger, leases: LeaseKeeper, stop: threading.Event) -> None:
        self._catalog = catalog
        self._leases = leases
        self._stop = stop

    def confirm(self, job: Job, progress: float) -> None:
        """Raises when the job is to be left. A lost one is released now, since the rest of its block may take long."""
        if self._stop.is_set():
            raise StopRequestedError
        try:
            self._leases.confirm(job, progress)
        except LeaseLostError:
            self._catalog.release(job)
            raise

    def is_leaving(self, job: Job) -> bool:
        return self._stop.is_set() or self._leases.is_lost(job)


def retry_in(attempts: int) -> timedelta:
    """The pause after the n-th failed attempt: 10 s, 20 s, 40 s … at most 10 minutes."""
    return min(_LONGEST_RETRY_IN, _FIRST_RETRY_IN * 2 ** min(attempts - 1, 16))


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set. To be called from the main thread of a worker process."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
