"""For commands that queue jobs: starts a worker if no process runs one, and reports jobs until they have ended."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname
from uuid import UUID

import typer

from app.commands.wiring import wiring
from app.errors import ConflictError
from app.runtime.worker_lock import WorkerLock
from app.services import Services
from app.types.documents import JobKind, JobState
from app.types.printable import printable
from app.types.upkeep import JobReport
from app.types.uris import shown_address

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

STOP_TIMEOUT_S = 10
POLL_BATCH = 500
MAX_LISTED = 20
_UNFINISHED = frozenset({JobState.QUEUED, JobState.RUNNING, JobState.FAILED})


@contextmanager
def worker_if_needed(services: Services) -> Iterator[Callable[[], None]]:
    """Yield a function to call at each poll: it starts a worker thread here if no other process of this home has one.

    It raises ConflictError if that thread has ended. The worker is stopped after the block.
    """
    worker_lock = WorkerLock(services.settings.home)
    stop = threading.Event()
    thread = threading.Thread(target=wiring("ingestion").run_worker, args=(services, stop), name="worker", daemon=True)

    def ensure_working() -> None:
        if thread.ident is None:
            if worker_lock.try_take():
                thread.start()
        elif not thread.is_alive():
            raise ConflictError("The worker stopped unexpectedly. Nothing is lost. `gircse --debug …` shows the error.")

    try:
        yield ensure_working
    finally:
        stop.set()
        if thread.ident is not None:
            thread.join(timeout=STOP_TIMEOUT_S)
            worker_lock.release()


class UnreadFiles:
    """Files that were not read, with the reason. Counts all, but keeps the first `MAX_LISTED`: there may be 100,000."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[tuple[str, str]] = []

    def add(self, name: str, reason: str) -> None:
        self.count += 1
        if len(self._kept) < MAX_LISTED:
            self._kept.append((name, reason))

    def rows(self) -> list[tuple[str, str]]:
        """Name and reason of each, shortened to `MAX_LISTED`."""
        more = self.count - len(self._kept)
        return [*self._kept, *([(f"{more} more", "")] if more else [])]

    def report(self, verdict: str) -> None:
        """Print the errors to stderr, each with `verdict`, and reset."""
        for name, reason in self.rows():
            typer.echo(f"  {verdict}: {printable(name)}{': ' if reason else ''}{printable(reason)}", err=True)
        self.count, self._kept = 0, []


class JobFollower:
    """Follows any number of jobs until they have ended. Keeps only 16 bytes per job.

    Polls the oldest jobs first, because workers run jobs roughly in order. Documents for which `is_optional(uri)` holds
    count as `unreadable`, not as failures, if their content cannot be read.
    """

    def __init__(
        self,
        catalog: SqlCatalog,
        *,
        reports_cancelled: bool = True,
        is_optional: Callable[[str], bool] = lambda uri: False,
    ) -> None:
        self._catalog = catalog
        self._is_optional = is_optional
        self._reports_cancelled = reports_cancelled
        self._waiting: OrderedDict[bytes, None] = OrderedDict()
        self.total = 0
        self.done = 0
        self.chunks = 0
        self.progress = 0.0  # sum of the progress of the jobs polled last
        self.failures = UnreadFiles()
        self.unreadable = UnreadFiles()
        self.left_out = UnreadFiles()  # unreadable parts of documents that were otherwise ingested

    def add(self, job_id: str) -> None:
        key = UUID(job_id).bytes
        if key not in self._waiting:
            self._waiting[key] = None
            self.total += 1

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def poll(self) -> bool:
        """Look at the next batch of jobs. Returns whether a job has ended since the last poll."""
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
                self._waiting.move_to_end(key)  # it waits for its next attempt; look at others first
        return len(self._waiting) < before

    def _finish(self, report: JobReport | None) -> None:
        if report is None:
            self.failures.add("a document", "its collection was deleted meanwhile")
            return
        job = report.job
        if job.state is JobState.CANCELLED and not self._reports_cancelled:
            return
        if job.state is not JobState.DONE:
            target = self.unreadable if job.is_refused and self._is_optional(report.uri) else self.failures
            target.add(shown_uri(report.uri) or job.document_id, job.error or f"the job was {job.state}")
            return
        self.done += 1
        if job.kind is JobKind.INGEST:
            self.chunks += report.chunk_count
            if report.left_out:
                self.left_out.add(shown_uri(report.uri), " ".join(report.left_out))


def shown_uri(uri: str) -> str:
    """The path of a file, with the row if there is one; other URIs readable."""
    if not uri.startswith("file:"):
        return shown_address(uri)
    file, hash_sign, row = uri.partition("#")
    return url2pathname(urlsplit(file).path) + hash_sign + row
