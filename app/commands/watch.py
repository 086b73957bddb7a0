"""`gircse watch`: keeps a collection in sync with folders."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from app.commands.chosen_collection import TargetCollection, target_collection
from app.commands.ingest import Excludes, Globs, require_names
from app.commands.wiring import open_services, wiring
from app.commands.worker import JobFollower, UnreadFiles, worker_if_needed
from app.documents.intake import FolderMirror, FolderSyncResult
from app.errors import InputError, UnavailableError
from app.services import Services

TICK_S = 0.25


def watch(
    folders: Annotated[list[str], typer.Argument(help="Folders.")],
    collection: TargetCollection = None,
    globs: Globs = [],  # noqa: B006
    excludes: Excludes = [],  # noqa: B006
    quiet_s: Annotated[
        float,
        typer.Option("--quiet", metavar="SECONDS", min=0, help="Ingest a file once it has not changed for this time."),
    ] = 1.0,
    poll: Annotated[
        bool,
        typer.Option("--poll", help="Poll all files instead of using file system events. Some network disks need it."),
    ] = False,
) -> None:
    """Keep a collection in sync with folders until stopped: additions, edits, moves and deletions. Ctrl-C stops it.

    Example: gircse watch ~/papers ~/notes -c reading
    """
    require_names(folders, "FOLDERS")
    roots = wiring("sources").outermost(_resolved(Path(folder)) for folder in folders)
    with open_services() as services:
        target = target_collection(collection, services.catalog)
        services.library.ensure_collection(target)
        home = services.settings.home
        find = partial(wiring("sources").find_changed, globs=globs, excludes=excludes, without=home)
        mirrors = [FolderMirror(services.library, services.catalog, target, root, find) for root in roots]
        with (
            worker_if_needed(services) as ensure_working,
            wiring("sources").FolderWatch(roots, without=home, quiet_s=quiet_s, is_polling=poll) as watch_events,
        ):
            syncs = _FolderSyncs(services, mirrors)
            syncs.start()
            typer.echo(f"Watching {', '.join(map(str, roots))}. Ctrl-C stops.")
            while True:
                ensure_working()
                watch_events.put_back(syncs.tick(watch_events.quiet_paths(wait_s=TICK_S)))


def _resolved(folder: Path) -> Path:
    try:
        root = folder.resolve(strict=True)
    except (OSError, RuntimeError):
        raise InputError(f"There is no folder {folder}. Is its disk mounted? Nothing was deleted.") from None
    if not root.is_dir():
        raise InputError(f"{folder} is a file. Give its folder, and --glob to watch only this file.")
    return root


class _FolderSyncs:
    """Syncs the folders after changes; prints what was done and the results of the jobs."""

    def __init__(self, services: Services, mirrors: list[FolderMirror]) -> None:
        self._mirrors = mirrors
        # An edit cancels the unfinished job of the previous edit; that is not a failure.
        self._follower = JobFollower(services.catalog, reports_cancelled=False)
        self._skipped: dict[str, str] = {}

    def start(self) -> None:
        for mirror in self._mirrors:
            self._report(mirror.sync_all())

    def tick(self, changed: set[Path]) -> set[Path]:
        """Handle the changed paths. Returns those to retry later, because a component is unavailable."""
        waiting: set[Path] = set()
        for mirror in self._mirrors:
            mirror.require_same_root()
            paths = {path for path in changed if path.is_relative_to(mirror.root)}
            if not paths:
                continue
            try:
                self._report(mirror.sync(paths))
            except UnavailableError as error:
                typer.echo(f"  waiting: {error}", err=True)
                waiting |= paths
        if self._follower.poll() and not self._follower.waiting:
            typer.echo(f"{_now()}  {self._follower.done} done, queue empty")
        self._follower.failures.report("failed")
        self._follower.left_out.report("partly unreadable")
        return waiting

    def _report(self, result: FolderSyncResult) -> None:
        for job_id in result.job_ids:
            self._follower.add(job_id)
        added = len(result.job_ids) - result.moved - result.deleted
        counts = ((added, "added or updated"), (result.moved, "moved"), (result.deleted, "deleted"))
        if summary := ", ".join(f"{count} {what}" for count, what in counts if count):
            typer.echo(f"{_now()}  {summary}")
        unread = UnreadFiles()
        for error in result.errors:
            if self._skipped.get(error.name) != error.reason:  # report each error once
                self._skipped[error.name] = error.reason
                unread.add(error.name, error.reason)
        unread.report("skipped")


def _now() -> str:
    return time.strftime("%H:%M:%S")
