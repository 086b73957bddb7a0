"""What commands that queue jobs share: a worker of their own where there is none, and following jobs to their end."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from app.commands import console
from app.commands.house import wiring
from app.errors import ConflictError, UnknownDocumentError, UnknownJobError
from app.ports import Catalog
from app.presence import WorkerPresence
from app.services import Services
from app.types import Job, JobKind, JobState

STOP_TIMEOUT_S = 10
POLL_BATCH = 100
MAX_TOLD = 20
_UNFINISHED = frozenset({JobState.QUEUED, JobState.RUNNING, JobState.FAILED})


@contextmanager
def own_worker(services: Services) -> Iterator[Callable[[], None]]:
    """Yields what to call now and then: it starts a worker here as soon as no other process of this home has one."""
    presence = WorkerPresence(services.settings.home)
    stop = threading.Event()
    thread = threading.Thread(target=wiring("ingestion").run_worker, args=(services, stop), name="worker", daemon=True)

    def ensure_working() -> None:
        if thread.ident is None:
            if presence.try_take():
                thread.start()
        elif not thread.is_alive():
            raise ConflictError("The worker stopped by itself; `gircse --debug …` shows why. Nothing is lost.")

    try:
        yield ensure_working
    finally:
        stop.set()
        if thread.ident is not None:
            thread.join(timeout=STOP_TIMEOUT_S)
            presence.release()


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
    """Follows jobs until they have ended. Looks at the oldest first, since jobs are done about in their order."""

    def __init__(self, catalog: Catalog, *, tells_cancelled: bool = True) -> None:
        self._catalog = catalog
        self._tells_cancelled = tells_cancelled
        self._waiting: OrderedDict[str, str] = OrderedDict()  # id → what a person calls it
        self.total = 0
        self.done = 0
        self.chunks = 0
        self.progress = 0.0  # of the job that is looked at
        self.failures = Complaints()

    def add(self, job: Job, name: str) -> None:
        if job.id not in self._waiting:
            self._waiting[job.id] = name
            self.total += 1

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def poll(self) -> bool:
        """Whether some job ended since the last time."""
        has_news = False
        for _ in range(min(POLL_BATCH, len(self._waiting))):
            job_id, name = next(iter(self._waiting.items()))
            try:
                job = self._catalog.job(job_id)
            except UnknownJobError:
                job = None
            self.progress = job.progress if job is not None else 0.0
            if job is not None and job.state in _UNFINISHED:
                if job.state is JobState.FAILED:
                    self._waiting.move_to_end(job_id)  # its next attempt comes later; the others need not wait
                break
            del self._waiting[job_id]
            self._settle(job, name)
            has_news = True
        return has_news

    def _settle(self, job: Job | None, name: str) -> None:
        if job is None:
            self.failures.add(name, "its collection was deleted meanwhile")
        elif job.state is JobState.CANCELLED and not self._tells_cancelled:
            pass
        elif job.state is not JobState.DONE:
            self.failures.add(name, job.error or f"the job was {job.state}")
        else:
            self.done += 1
            self.chunks += self._chunks_of(job)

    def _chunks_of(self, job: Job) -> int:
        if job.kind is JobKind.DELETE:
            return 0
        try:
            return self._catalog.document(job.document_id).chunk_count
        except UnknownDocumentError:  # deleted since
            return 0
