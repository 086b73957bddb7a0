"""`gircse ingest`: puts files into a collection and shows how far their ingestion is."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.commands import console
from app.commands.house import open_services, wiring
from app.errors import ConflictError, GircseError, UnknownJobError
from app.library import DEFAULT_COLLECTION
from app.presence import WorkerPresence
from app.services import Services
from app.types import Job, JobState

POLL_S = 0.2
STOP_TIMEOUT_S = 10
UNFINISHED = frozenset({JobState.QUEUED, JobState.RUNNING, JobState.FAILED})


@dataclass(slots=True)
class Submitted:
    """What became of the given paths. `names` maps a job's id to its file."""

    jobs: list[Job] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    unchanged: int = 0
    done: list[Job] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)  # (file, reason)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def settle(self, job: Job) -> None:
        if job.state is JobState.DONE:
            self.done.append(job)
        else:
            self.failures.append((self.names[job.id], job.error or f"the job was {job.state}"))


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.")],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Where to; made if new.")] = DEFAULT_COLLECTION,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Stay until all is searchable.")] = True,
) -> None:
    """Put files and folders into a collection. What is unchanged since last time costs nothing.

    Example: gircse ingest ~/papers notes.md -c reading
    """
    with open_services() as services:
        services.library.ensure_collection(collection)
        submitted = _submit(services, paths, collection)
        if not wait:
            typer.echo(f"{len(submitted.jobs)} queued, {submitted.unchanged} unchanged. `gircse jobs list` shows more.")
        else:
            _wait(services, submitted)
            _print_summary(services, submitted)
    for verdict, files in (("skipped", submitted.skipped), ("failed", submitted.failures)):
        for name, reason in files:
            typer.echo(f"  {verdict}: {console.printable(name)}: {console.printable(reason)}", err=True)
    if submitted.failures:
        raise typer.Exit(1)


def _submit(services: Services, paths: list[Path], collection: str) -> Submitted:
    submitted = Submitted()
    found = wiring("ingestion").find_files(paths)
    for path, reason in found.skipped:
        # A file that was named itself was wanted; inside a folder there may be anything.
        (submitted.failures if path in paths else submitted.skipped).append((str(path), reason))
    for file in found.files:
        try:
            document, job = services.library.add_document(
                collection, file.path.read_bytes(), uri=file.uri, media_type=file.media_type
            )
        except (GircseError, OSError) as error:
            submitted.failures.append((str(file.path), str(error)))
            continue
        if job is None:
            submitted.unchanged += 1
        else:
            submitted.jobs.append(job)
            submitted.names[job.id] = document.uri
    return submitted


def _wait(services: Services, submitted: Submitted) -> None:
    """Until every job has ended. Works itself unless a worker of this home is there already."""
    waiting = deque(submitted.jobs)
    columns = (TextColumn("ingesting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with _own_worker(services) as ensure_working, Progress(*columns, console=console.stderr) as progress:
        bar = progress.add_task("ingesting", total=len(waiting))
        while waiting:
            ensure_working()
            job = _job_now(services, waiting[0])
            if job.state not in UNFINISHED:
                submitted.settle(job)
                waiting.popleft()
            elif job.state is JobState.FAILED:
                waiting.rotate(-1)  # its next attempt comes later; the others need not wait
            settled = len(submitted.jobs) - len(waiting)
            progress.update(bar, completed=settled + (job.progress if job.state in UNFINISHED else 0))
            if job.state in UNFINISHED:
                time.sleep(POLL_S)


def _job_now(services: Services, job: Job) -> Job:
    try:
        return services.catalog.job(job.id)
    except UnknownJobError:  # its document was deleted meanwhile
        return replace(job, state=JobState.CANCELLED, error="the document was deleted meanwhile")


@contextmanager
def _own_worker(services: Services) -> Iterator[Callable[[], None]]:
    """Yields what to call now and then: it starts a worker here as soon as no other process of this home has one."""
    presence = WorkerPresence(services.settings.home)
    stop = threading.Event()
    thread = threading.Thread(target=wiring("ingestion").run_worker, args=(services, stop), name="worker", daemon=True)

    def ensure_working() -> None:
        if thread.ident is None:
            if presence.try_take():
                thread.start()
        elif not thread.is_alive():
            raise ConflictError("The worker stopped by itself; `gircse --debug ingest …` shows why. Nothing is lost.")

    try:
        yield ensure_working
    finally:
        stop.set()
        if thread.ident is not None:
            thread.join(timeout=STOP_TIMEOUT_S)
            presence.release()


def _print_summary(services: Services, submitted: Submitted) -> None:
    chunks = sum(services.catalog.document(job.document_id).chunk_count for job in submitted.done)
    typer.echo(
        f"{len(submitted.done)} added or updated ({chunks} chunks), {submitted.unchanged} unchanged, "
        f"{len(submitted.failures)} failed."
    )
