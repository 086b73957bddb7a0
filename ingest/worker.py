"""Works off the ledger: claims jobs, keeps their leases alive while the pipeline does them, and records how they ended.

Runs in a thread of a serving process or as a process of its own; any number of workers may share one catalog.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
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
DEFAULT_BLOCK = 256  # small documents that are ingested together
SMALL_BYTES = 8_192
_STOP_LOOK_S = 0.2
_SHARED_ATTEMPTS = 2  # what ended its worker that often is done alone: it may be that which takes the others with it
_SUSPECTS = 8  # what ended one worker is done in blocks smaller by this: few of it come to be suspected twice
_FIRST_RETRY_IN = timedelta(seconds=10)
_LONGEST_RETRY_IN = timedelta(minutes=10)


class StopRequestedError(Exception):
    """The worker is to stop before the job is done; what was embedded so far is kept in the index."""


class Worker:
    """Works in as many lanes at once as there are, each a thread with one job, or a block of small documents.

    One that fails is no other's matter. A job that is cancelled, paused or taken over writes nothing more: it is looked
    up every second, and before each batch is written. Whoever does a long step for its lane hears of it. A batch that
    is being embedded cannot be interrupted; it is thrown away.
    """

    def __init__(
        self,
        *,
        catalog: Ledger,
        pipeline: IngestPipeline,
        owner: str,
        lease: timedelta = DEFAULT_LEASE,
        poll_s: float = 1.0,
        lanes: WorkerSlots | None = None,
        block: int = DEFAULT_BLOCK,
        observer: Observer = SILENT,
    ) -> None:
        self._observer = observer
        self._catalog = catalog
        self._pipeline = pipeline
        self._owner = owner
        self._lease = lease
        self._poll_s = poll_s
        self._lanes = lanes or WorkerSlots()
        self._block = block
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
        while not self._lanes.wait_until_taken_is(0, timeout_s=_STOP_LOOK_S):
            pass
        log.info("Worker %s stopped", self._owner)

    def run_once(self, stop: threading.Event | None = None) -> bool:
        """Does a job, or a block of them. False when there is nothing to do now: none is due, or a part is away."""
        jobs = self._claim()
        return bool(jobs) and self._finish(jobs, stop or threading.Event())

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
        jobs: list[Job] = []
        try:
            jobs = self._claim()
        finally:
            if not jobs:
                self._lanes.give_back()
        if not jobs:
            return False
        is_alone = jobs[0].attempts > _SHARED_ATTEMPTS
        name = f"job-{jobs[0].id}"
        thread = threading.Thread(target=self._run_lane, args=(jobs, stop, is_alone), name=name, daemon=True)
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

    def _run_lane(self, jobs: list[Job], stop: threading.Event, is_alone: bool) -> None:
        try:
            if not self._finish(jobs, stop, is_alone=is_alone):
                self._must_rest.set()
        except UnavailableError as error:
            log.warning("Job %s was dropped, and its lease ends: %s", jobs[0].id, error)
            self._must_rest.set()
        finally:
            self._lanes.give_back()

    def _finish(self, jobs: list[Job], stop: threading.Event, *, is_alone: bool = False) -> bool:
        """False when a part that is needed is away."""
        leases = LeaseKeeper(self._catalog, jobs, lease=self._lease)
        with leases, self._lanes.holding(leases.are_all_lost):
            hand = _InFlight(self._catalog, leases, stop)
            if is_alone:
                self._wait_until_alone(jobs, hand)
            outcomes = self._run_together(jobs, hand) if len(jobs) > 1 else {}
            settled = [self._settle(job, hand, outcomes.get(job.id)) for job in jobs]
            return all(settled)

    def _run_together(self, jobs: list[Job], hand: _InFlight) -> dict[str, IngestReport | Exception]:
        """Nothing when they are to be done one by one, so that a fault goes to the document whose it is."""
        try:
            with self._observer.stage("ingest.block"):
                return dict(self._pipeline.run_block(jobs, heartbeat=hand.confirm))
        except (StopRequestedError, UnavailableError) as error:
            return {job.id: error for job in jobs}
        except Exception as error:  # noqa: BLE001 - raised again by the job whose matter it is
            log.info("%d documents are done one by one: %s", len(jobs), error)
            return {}

    def _settle(self, job: Job, hand: _InFlight, outcome: IngestReport | Exception | None) -> bool:
        """Records how the job ended; one without an outcome is run. False when a part that is needed is away."""
        try:
            return self._record(job, hand, outcome)
        except LeaseLostError as error:
            log.info("Job %s was left: %s", job.id, error)
            self._catalog.release(job)
            return True

    def _record(self, job: Job, hand: _InFlight, outcome: IngestReport | Exception | None) -> bool:
        try:
            if isinstance(outcome, Exception):
                raise outcome
            report = outcome or self._run(job, hand)
        except (LeaseLostError, StopRequestedError) as error:
            log.info("Job %s was left: %s", job.id, error or "the worker stops")
            self._catalog.release(job)
        except UnavailableError as error:
            if hand.is_leaving(job):  # a step was interrupted for just that
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

    def _run(self, job: Job, hand: _InFlight) -> IngestReport:
        with self._observer.stage("ingest.job"):
            return self._pipeline.run(job, heartbeat=partial(hand.confirm, job))

    def _wait_until_alone(self, jobs: list[Job], hand: _InFlight) -> None:
        """Until then, or until it is to be left; its first heartbeat says so."""
        while not self._lanes.wait_until_taken_is(1, timeout_s=_STOP_LOOK_S):
            if any(hand.is_leaving(job) for job in jobs):
                return


class _InFlight:
    """What a lane has in hand: the leases of its jobs, until the worker stops."""

    def __init__(self, catalog: Ledger, leases: LeaseKeeper, stop: threading.Event) -> None:
        self._catalog = catalog
        self._leases = leases
        self._stop = stop

    def confirm(self, job: Job, progress: float) -> None:
        """Raises when the job is to be left; a lost one is let go, since the others of its block may take long yet."""
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
