"""`gircse ingest`: adds files, rows and web pages to a collection and shows the progress of their ingestion."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.commands import terminal
from app.commands.bulk import IngestEngine, ray_engine, require_ray
from app.commands.chosen_collection import TargetCollection, target_collection
from app.commands.wiring import open_services, wiring
from app.commands.worker import JobFollower, UnreadFiles, shown_uri, worker_if_needed
from app.documents.intake import Intake, IntakeResult, documents_below, is_gone, require_filled
from app.errors import UnknownCollectionError
from app.services import Services
from app.types.documents import DocumentKey, JobPriority, Source, SourceFailure

POLL_S = 0.2
_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)  # two letters at least: C:\ is a path

Globs = Annotated[
    list[str],
    typer.Option("--glob", metavar="PATTERN", help="In folders, only matching files, such as '*.md'. Repeatable."),
]
Excludes = Annotated[
    list[str],
    typer.Option("--exclude", metavar="PATTERN", help="In folders, skip matching files and folders. Repeatable."),
]
TextField = Annotated[
    str | None, typer.Option(metavar="NAME", help="Field with the text. Default: text. Implies --rows.")
]
IdField = Annotated[
    str | None, typer.Option(metavar="NAME", help="Field that identifies a row. Default: id. Implies --rows.")
]
TitleField = Annotated[
    str | None, typer.Option(metavar="NAME", help="Field with the title. Default: title. Implies --rows.")
]


@dataclass(frozen=True)
class _Request:
    """What to ingest. `rows` is a RowFields if each row of a file is a document, None if each file is one."""

    paths: list[Path]
    urls: list[str]
    globs: list[str]
    excludes: list[str]
    rows: object | None

    @property
    def folders(self) -> list[Path]:
        return [path.resolve() for path in self.paths if path.is_dir()]

    def names(self, uri: str) -> bool:
        """Whether the user named the document itself, or the file of its row, instead of a folder that contains it."""
        return not uri.startswith("file:") or uri.partition("#")[0] in self._file_uris

    @cached_property
    def _file_uris(self) -> frozenset[str]:
        return frozenset(path.resolve().as_uri() for path in self.paths if not path.is_dir())

    @property
    def priority(self) -> JobPriority:
        """INTERACTIVE for a single file or page, so that it does not wait for a bulk run."""
        is_single = len(self.paths) + len(self.urls) == 1 and not self.folders and self.rows is None
        return JobPriority.INTERACTIVE if is_single else JobPriority.BULK


class _SeenRows:
    """The rows seen in this run, kept as 16-byte digests because there may be millions."""

    def __init__(self) -> None:
        self.prefixes: set[str] = set()  # URI prefixes of the files with rows
        self._digests: set[bytes] = set()

    def recording(self, sources: Iterable[Source | SourceFailure]) -> Iterator[Source | SourceFailure]:
        """Pass the sources through and record the rows among them."""
        for source in sources:
            if isinstance(source, Source) and source.path is None and source.uri.startswith("file:"):
                self.prefixes.add(source.uri.partition("#")[0] + "#")
                self._digests.add(self._digest(source.uri))
            yield source

    def has(self, uri: str) -> bool:
        return self._digest(uri) in self._digests

    @staticmethod
    def _digest(uri: str) -> bytes:
        return hashlib.blake2b(uri.encode(), digest_size=16).digest()


@dataclass(slots=True)
class _Outcome:
    follower: JobFollower
    unchanged: int = 0
    moved: int = 0
    deleted: int = 0
    failures: UnreadFiles = field(default_factory=UnreadFiles)
    skipped: UnreadFiles = field(default_factory=UnreadFiles)
    gone: UnreadFiles = field(default_factory=UnreadFiles)  # documents of a given folder without a file
    rows: _SeenRows = field(default_factory=_SeenRows)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found."""
        found = self.failures.count + self.skipped.count + self.gone.count
        return not (found or self.unchanged or self.deleted or self.follower.total)


def ingest(
    paths: Annotated[list[str], typer.Argument(help="Files, folders and URLs.", show_default=False)] = [],  # noqa: B006
    collection: TargetCollection = None,
    globs: Globs = [],  # noqa: B006
    excludes: Excludes = [],  # noqa: B006
    url_file: Annotated[
        Path | None, typer.Option("--urls", metavar="FILE", help="A file with one URL per line; # begins a comment.")
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="Each row of a JSONL or CSV file is a document.")] = False,
    text_field: TextField = None,
    id_field: IdField = None,
    title_field: TitleField = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete documents of these folders whose file no longer exists.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before deleting.")] = False,
    engine: Annotated[
        IngestEngine, typer.Option(help="ray: embed on all CPUs or GPUs of this machine or of a Ray cluster.")
    ] = IngestEngine.LOCAL,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until everything is searchable.")] = True,
) -> None:
    """Add files, folders, rows and web pages to a collection. Unchanged documents are skipped.

    A table at the end lists what was left out, and why. Exit code 1 if a file or page that you named was not read, or
    if a part of gircse failed; unreadable files in a folder are only listed.

    Example: gircse ingest ~/papers notes.md https://example.org/page -c reading
    """
    if engine is IngestEngine.RAY:
        require_ray()
        if not wait:
            raise typer.BadParameter("Ray runs only while this command waits", param_hint="--engine ray --no-wait")
    require_names(paths, "PATHS")
    urls = [path for path in paths if _URL.match(path)]
    files = [Path(path) for path in paths if not _URL.match(path)]
    if url_file is not None:
        urls += _listed_urls(url_file)
    elif not paths:
        raise typer.BadParameter("name a file, a folder or a URL", param_hint="PATHS")
    row_fields = None
    if rows or text_field or id_field or title_field:
        row_fields = wiring("sources").RowFields(text=text_field or "text", id=id_field, title=title_field)
    request = _Request(files, urls, globs, excludes, row_fields)
    with open_services() as services:
        target = target_collection(collection, services.catalog)
        if _is_paused(services, target) and wait:
            wait = False
            typer.echo(f"The collection is paused. `gircse jobs resume {target}` resumes its jobs.", err=True)
        outcome = _take_in(services, target, request, prune=prune, yes=yes)
        if wait and outcome.follower.total:
            _wait(outcome, ray_engine(services, target) if engine is IngestEngine.RAY else worker_if_needed(services))
        _print_summary(outcome, has_waited=wait)
    _print_left_out(outcome)
    if outcome.is_empty and request.folders:
        typer.echo("No files were found. Hidden files, and those that --glob leaves out, are ignored.", err=True)
    if outcome.failures.count or outcome.follower.failures.count:
        raise typer.Exit(1)


def require_names(names: Sequence[str], hint: str) -> None:
    """Raises BadParameter for an empty name, which pathlib would read as the working directory."""
    if "" in names:
        raise typer.BadParameter("a name is empty; is a variable of the shell not set?", param_hint=hint)


def _is_paused(services: Services, collection: str) -> bool:
    """Raises FingerprintMismatchError early for an existing collection; a missing one is not created yet."""
    try:
        services.catalog.collection(collection)
    except UnknownCollectionError:
        return False
    return services.library.ensure_collection(collection).is_paused


def _listed_urls(file: Path) -> list[str]:
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in file.read_text("utf-8-sig").splitlines())
    return [line for line in lines if line]


def _take_in(services: Services, collection: str, request: _Request, *, prune: bool, yes: bool) -> _Outcome:
    outcome = _Outcome(JobFollower(services.catalog, is_optional=lambda uri: not request.names(uri)))
    gone = _gone(services, collection, request.folders, require_files=True) if prune else []
    intake = Intake(services.library, collection, gone=gone, priority=request.priority)
    sources: Iterable[Source | SourceFailure] = _shown(_sources(services, request))
    if prune:
        sources = outcome.rows.recording(sources)
    for taken in intake.add_all(_creating(services, collection, sources)):
        _count(taken, outcome)
    if not prune:
        for key in _gone(services, collection, request.folders):
            outcome.gone.add(shown_uri(key.uri), "the file is gone, its text is still found; --prune deletes it")
    else:
        vanished = intake.gone + _vanished_rows(services, collection, outcome)
        _delete(services, vanished, collection, outcome, yes=yes)
    return outcome


def _creating(
    services: Services, collection: str, sources: Iterable[Source | SourceFailure]
) -> Iterator[Source | SourceFailure]:
    """Create the collection before the first source, so that a run that finds nothing leaves no empty collection."""
    is_there = False
    for source in sources:
        if not is_there and isinstance(source, Source):
            services.library.ensure_collection(collection)
            is_there = True
        yield source


def _sources(services: Services, request: _Request) -> Iterator[Source | SourceFailure]:
    sources = wiring("sources")
    files = sources.find_files(
        request.paths,
        globs=request.globs,
        excludes=request.excludes,
        without=services.settings.home,
        rows=request.rows,
    )
    return chain(files, sources.url_reader(services.settings).read_all(request.urls))


def _shown(sources: Iterable[Source | SourceFailure]) -> Iterator[Source | SourceFailure]:
    """Pass the sources through and show their number on the terminal."""
    with Progress(
        TextColumn("reading"), TextColumn("{task.completed}"), console=terminal.stderr, transient=True
    ) as bar:
        yield from bar.track(sources, description="reading")


def _count(taken: IntakeResult | SourceFailure, outcome: _Outcome) -> None:
    if isinstance(taken, SourceFailure):
        # An unreadable file is an error only if the user named it; folders may contain anything.
        (outcome.failures if taken.was_named else outcome.skipped).add(taken.name, taken.reason)
    elif taken.job is None:
        outcome.unchanged += 1
    else:
        outcome.moved += taken.has_moved
        outcome.follower.add(taken.job.id)


def _gone(
    services: Services, collection: str, folders: list[Path], *, require_files: bool = False
) -> list[DocumentKey]:
    """Documents whose file no longer exists. Raises ConflictError for an empty folder with `require_files`."""
    known = documents_below(services.catalog, collection, folders)
    for folder in folders if require_files else ():
        require_filled(folder, len(known))
    return [key for key in known if is_gone(key)]


def _vanished_rows(services: Services, collection: str, outcome: _Outcome) -> list[DocumentKey]:
    """Documents whose row no longer exists in its file. Empty if any row was unreadable: it may be the missing one."""
    if outcome.failures.count:
        return []
    prefixes = sorted(outcome.rows.prefixes)
    known = chain.from_iterable(services.catalog.document_keys(collection, uri_prefix=prefix) for prefix in prefixes)
    return [key for key in known if not outcome.rows.has(key.uri)]


def _delete(services: Services, gone: list[DocumentKey], collection: str, outcome: _Outcome, *, yes: bool) -> None:
    if not gone:
        return
    if not yes:
        for key in gone[:10]:
            typer.echo(f"  gone: {terminal.address(key.uri)}", err=True)
        question = f"Delete {len(gone)} documents of {collection!r} whose files or rows are gone?"
        terminal.confirm_deletion(
            question, refusal="Nothing was deleted. Existing files were queued; see `gircse jobs list`."
        )
    for key in gone:
        outcome.follower.add(services.library.delete_document(key.id).id)
    outcome.deleted = len(gone)


def _wait(outcome: _Outcome, work: AbstractContextManager[Callable[[], None]]) -> None:
    """Wait until every job has ended.

    `work` yields a function that is called at each poll; it starts a worker if no process runs one.
    """
    follower = outcome.follower
    columns = (TextColumn("ingesting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with work as ensure_working, Progress(*columns, console=terminal.stderr) as progress:
        bar = progress.add_task("ingesting", total=follower.total)
        while follower.waiting:
            ensure_working()
            has_finished_jobs = follower.poll()
            finished = follower.total - follower.waiting
            progress.update(bar, completed=finished + follower.progress)
            if not has_finished_jobs:
                time.sleep(POLL_S)


def _print_summary(outcome: _Outcome, *, has_waited: bool) -> None:
    follower = outcome.follower
    if not has_waited:
        typer.echo(f"{follower.total} queued, {outcome.unchanged} unchanged. See `gircse jobs list`.")
        return
    added = follower.done - outcome.deleted
    also = "".join(
        f", {count} {what}" for count, what in ((outcome.moved, "moved"), (outcome.deleted, "deleted")) if count
    )
    failed = outcome.failures.count + follower.failures.count
    left_out = outcome.skipped.count + follower.unreadable.count
    typer.echo(
        f"{added} added or updated ({follower.chunks} chunks), {outcome.unchanged} unchanged{also}, {failed} failed"
        f"{f', {left_out} left out' if left_out else ''}."
    )


def _print_left_out(outcome: _Outcome) -> None:
    """A table of files that are not searchable, or not completely."""
    follower = outcome.follower
    rows = [
        (verdict, name, reason)
        for verdict, complaints in (
            ("skipped", outcome.skipped),
            ("unreadable", follower.unreadable),
            ("partly read", follower.left_out),
            ("gone", outcome.gone),
            ("failed", outcome.failures),
            ("failed", follower.failures),
        )
        for name, reason in complaints.rows()
    ]
    if rows:
        terminal.print_table(("left out", "file", "reason"), rows, err=True)
