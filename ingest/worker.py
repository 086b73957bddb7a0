"""Runs the jobs of the ledger: claims them, renews their leases while the pipeline works, records their results.

Runs in a thread of a serving process or as a process of its own; any number of workers may share one catalog.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from app.errors import GircseError, LeaseLostError, ServerLimitError, UnansweredWriteError, UnavailableError
from app.ports.ledger import JobListener, Ledger
from app.ports.observer import SILENT, Observer
from app.types.documents import Job, JobKind
from ingest.incidents import log_incident
from ingest.leases import LeaseKeeper, StopRequestedError
from ingest.pipeline import IngestPipeline
from ingest.points import IngestReport
from ingest.worker_slots import WorkerSlots

log = logging.getLogger(__name__)

DEFAULT_LEASE = timedelta(seconds=60)
DEFAULT_BLOCK = 128  # small documents ingested together; the next block is parsed while the model embeds this one
SMALL_BYTES = 8_192
_STOP_LOOK_S = 0.2
_SHARED_ATTEMPTS = 2  # after more attempts, each ended by a killed worker, a job runs alone: it may be the cause
_SUSPECTS = 8  # after the first attempt blocks are smaller by this factor, so that fewer jobs become suspects again
_FIRST_RETRY_IN = timedelta(seconds=10)
_LONGEST_RETRY_IN = timedelta(minutes=10)


class Worker:
    """Runs one job, or a block of small documents, per worker slot. Each slot is a thread.

    A failed job does not stop the others. A job that is cancelled, paused or taken over writes nothing more: its lease
    is checked every second and before each write of a batch, and long steps poll `WorkerSlots.is_leaving`. A batch that
    is being embedded cannot be interrupted; its vectors are discarded.
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
        """`owner` names this worker in leases. `when_idle` is called once each time that no work is left."""
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
        self._must_rest = threading.Event()  # a job was postponed: the next one would meet the same unavailable part

    def run(self, stop: threading.Event) -> None:
        """Works until `stop` is set. Then jobs in flight end between two batches and are released."""
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
        while not self._slots.wait_for_taken_count(0, timeout_s=_STOP_LOOK_S):
            pass
        log.info("Worker %s stopped", self._owner)

    def run_once(self, stop: threading.Event | None = None) -> bool:
        """Runs one job, or a block of them. False when no job is due or a part is unavailable."""
        jobs = self._claim()
        return bool(jobs) and self._finish(jobs, stop or threading.Event())

    def _rest(self, listener: JobListener, stop: threading.Event) -> None:
        """Waits until the listener reports a job, at most the time between two polls."""
        if self._has_worked and self._slots.taken == 0:
            self._has_worked = False
            self._when_idle()
        until = time.monotonic() + self._poll_s
        while not stop.is_set() and (left_s := until - time.monotonic()) > 0:
            if listener.wait(min(left_s, _STOP_LOOK_S)):
                return

    def _fill_slot(self, stop: threading.Event) -> bool:
        """Waits briefly for a free slot and starts a job in it. False when no job is due; True while no slot is
        free."""
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
        """Claims the next job, and for a small document others like it. Empty when no job is due."""
        job = self._catalog.claim(self._owner, lease=self._lease)
        if job is None:
            return []
        size = self._block if job.attempts == 1 else self._block // _SUSPECTS
        if job.kind is not JobKind.INGEST or job.attempts > _SHARED_ATTEMPTS or size <= 1:
            return [job]
        try:
            others = self._catalog.shards.claim_batch(
                job,
                self._owner,
                limit=size - 1,
                max_bytes=SMALL_BYTES,
                max_attempts=job.attempts,
                lease=self._lease,
            )
        except UnavailableError as error:
            log.warning("Job %s runs alone; similar jobs could not be claimed: %s", job.id, error)
            others = []
        return [job, *others]

    def _run_slot(self, jobs: list[Job], stop: threading.Event, is_alone: bool) -> None:
        try:
            if not self._finish(jobs, stop, is_alone=is_alone):
                self._must_rest.set()
        except UnavailableError as error:
            log.warning("Job %s was dropped; its lease will expire: %s", jobs[0].id, error)
            self._must_rest.set()
        finally:
            self._slots.give_back()

    def _finish(self, jobs: list[Job], stop: threading.Event, *, is_alone: bool = False) -> bool:
        """Runs the jobs and records their results. False when a required part is unavailable."""
        leases = LeaseKeeper(self._catalog.shards, jobs, lease=self._lease)
        with leases, self._slots.holding(leases.are_all_lost):
            in_flight = _InFlight(self._catalog, leases, stop)
            if is_alone:
                self._wait_until_alone(jobs, in_flight)
            outcomes = self._run_together(jobs, in_flight) if len(jobs) > 1 else {}
            recorded = [self._record_outcome(job, in_flight, outcomes.get(job.id)) for job in jobs]  # no short circuit
            return all(recorded)

    def _run_together(self, jobs: list[Job], in_flight: _InFlight) -> dict[str, IngestReport | Exception]:
        """Runs the jobs as one block. Empty result: run them one by one, so that an error is recorded for its own
        document."""
        try:
            with self._observer.stage("ingest.block"):
                return dict(self._pipeline.run_block(jobs, heartbeat=in_flight.confirm))
        except (StopRequestedError, UnavailableError) as error:
            return {job.id: error for job in jobs}
        except Exception as error:  # noqa: BLE001 - the job that caused it raises it again
            log.info("%d documents are ingested one by one: %s", len(jobs), error)
            return {}

    def _record_outcome(self, job: Job, in_flight: _InFlight, outcome: IngestReport | Exception | None) -> bool:
        """Records the result of a job; runs it first if it has none. False when a required part is unavailable."""
        try:
            return self._record(job, in_flight, outcome)
        except LeaseLostError as error:
            log.info("Job %s was released: %s", job.id, error)
            self._catalog.release(job)
            return True

    def _record(self, job: Job, in_flight: _InFlight, outcome: IngestReport | Exception | None) -> bool:
        try:
            if isinstance(outcome, Exception):
                raise outcome
            report = outcome or self._run(job, in_flight)
        except (LeaseLostError, StopRequestedError) as error:
            log.info("Job %s was released: %s", job.id, error or "the worker stops")
            self._catalog.release(job)
        except UnavailableError as error:
            if in_flight.is_leaving(job):  # the step was interrupted because the job must stop
                log.info("Job %s was released: %s", job.id, error)
                self._catalog.release(job)
                return True
            log.warning("Job %s is postponed: %s", job.id, error)
            self._catalog.release(job, reason=error.lasting_text, is_suspect=isinstance(error, UnansweredWriteError))
            return False
        except GircseError as error:  # the message is for the user, and a retry would not help
            log.warning("Job %s failed: %s", job.id, error)
            self._catalog.fail(job, error.lasting_text, retry_in=None, may_succeed=isinstance(error, ServerLimitError))
        except Exception as error:  # noqa: BLE001 - the only broad clause: an error in one job must not end the worker
            self._catalog.fail(job, log_incident(log, job.id, error), retry_in=retry_in(job.attempts))
        else:
            log.info("Job %s done: %s", job.id, report)
        return True

    def _run(self, job: Job, in_flight: _InFlight) -> IngestReport:
        with self._observer.stage("ingest.job"):
            return self._pipeline.run(job, heartbeat=partial(in_flight.confirm, job))

    def _wait_until_alone(self, jobs: list[Job], in_flight: _InFlight) -> None:
        """Waits until no other slot is taken. Returns early if a job must stop; its first heartbeat then raises."""
        while not self._slots.wait_for_taken_count(1, timeout_s=_STOP_LOOK_S):
            if any(in_flight.is_leaving(job) for job in jobs):
                return


class _InFlight:
    """The jobs of one slot: tells whether they must stop, because a lease was lost or the worker stops."""

    def __init__(self, catalog: Ledger, leases: LeaseKeeper, stop: threading.Event) -> None:
        self._catalog = catalog
        self._leases = leases
        self._stop = stop

    def confirm(self, job: Job, progress: float) -> None:
        """Records progress. Raises when the job must stop. A lost job is released now: the rest of its block may take
        long."""
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
    """The pause after the n-th failed attempt: 10 s, 20 s, 40 s, …, at most 10 minutes."""
    return min(_LONGEST_RETRY_IN, _FIRST_RETRY_IN * 2 ** min(attempts - 1, 16))
