"""What commands that queue jobs share: a worker of their own where there is none, and following jobs to their end."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from uuid import UUID

import typer

from app.commands import console
from app.commands.composition import wiring
from app.errors import ConflictError
from app.ports.ledger import Ledger
from app.runtime.worker_lock import WorkerLock
from app.services import Services
from app.types.documents import JobKind, JobState
from app.types.upkeep import JobReport

STOP_TIMEOUT_S = 10
POLL_BATCH = 500
MAX_TOLD = 20
_UNFINISHED = frozenset({JobState.QUEUED, JobState.RUNNING, JobState.FAILED})


@contextmanager
def own_worker(services: Services) -> Iterator[Callable[[], None]]:
    """Yields a function to call now and then: it starts a worker here when no other process of this home runs one."""
    worker_lock = WorkerLock(services.settings.home)
    stop = threading.Event()
    thread = threading.Thread(target=wiring("ingestion").run_worker, args=(services, stop), name="worker", daemon=True)

    def ensure_working() -> None:
        if thread.ident is None:
            if worker_lock.try_take():
                thread.start()
        elif not thread.is_alive():
            raise ConflictError("The worker stopped by itself; `gircse --debug …` shows why. Nothing is lost.")

    try:
        yield ensure_working
    finally:
        stop.set()
        if thread.ident is not None:
            thread.join(timeout=STOP_TIMEOUT_S)
            worker_lock.release()


class Complaints:
    """What went wrong with which file. A hundred thousand bad rows are counted, the first of them kept."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[tuple[str, str]] = []

    def add(self, name: str, reason: str) -> None:
        self.count += 1
        if len(self._kept) < MAX_TOLD:
            self._kept.append((name, reason))

    def tell(self, verdict: str) -> None:
        """Prints what was kept to stderr and forgets it."""
        for name, reason in self._kept:
            typer.echo(f"  {verdict}: {console.printable(name)}: {console.printable(reason)}", err=True)
        if self.count > len(self._kept):
            typer.echo(f"  {verdict}: {self.count - len(self._kept)} more", err=True)
        self.count, self._kept = 0, []


class JobFollower:
    """Follows any number of jobs until they have ended; of each only its id is kept.

    Looks at the oldest first, since jobs are done about in their order.
    """

    def __init__(self, catalog: Ledger, *, tells_cancelled: bool = True) -> None:
        self._catalog = catalog
        self._tells_cancelled = tells_cancelled
        self._waiting: OrderedDict[bytes, None] = OrderedDict()
        self.total = 0
        self.done = 0
        self.chunks = 0
        self.progress = 0.0  # of the jobs polled last: the sum of their progress
        self.failures = Complaints()
        self.left_out = Complaints()  # of documents that were read otherwise

    def add(self, job_id: str) -> None:
        key = UUID(job_id).bytes
        if key not in self._waiting:
            self._waiting[key] = None
            self.total += 1

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def poll(self) -> bool:
        """Whether some job ended since the last time."""
        keys = list(islice(self._waiting, POLL_BATCH))
        ids = {key: str(UUID(bytes=key)) for key in keys}
        reports = self._catalog.job_reports(list(ids.values())) if ids else {}
        before = len(self._waiting)
        self.progress = 0.0
        for key, job_id in ids.items():
            report = reports.get(job_id)
            if report is None or report.job.state not in _UNFINISHED:
                del self._waiting[key]
                self._finish(report)
                continue
            self.progress += report.job.progress
            if report.job.state is JobState.FAILED:
                self._waiting.move_to_end(key)  # its next attempt comes later; the others need not wait
        return len(self._waiting) < before

    def _finish(self, report: JobReport | None) -> None:
        if report is None:
            self.failures.add("a document", "its collection was deleted meanwhile")
            return
        job = report.job
        if job.state is JobState.CANCELLED and not self._tells_cancelled:
            return
        if job.state is not JobState.DONE:
            self.failures.add(report.uri or job.document_id, job.error or f"the job was {job.state}")
            return
        self.done += 1
        if job.kind is JobKind.INGEST:
            self.chunks += report.chunk_count
            if report.left_out:
                self.left_out.add(report.uri, " ".join(report.left_out))
