"""`gircse check`: prints where catalog and vectors differ, and mends it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.collections.consistency import UNMANAGED, ConsistencyCheck, Difference, Inconsistency
from app.commands import console
from app.commands.composition import open_services
from app.commands.working import own_worker
from app.services import Services
from app.types.documents import JobState

POLL_S = 0.2
_REBUILT = frozenset(
    {
        Inconsistency.MISSING_INDEX,
        Inconsistency.MISSING_POINTS,
        Inconsistency.WRONG_POINTS,
        Inconsistency.WRONG_ALIAS,
    }
)


def check(
    fix: Annotated[bool, typer.Option("--fix", help="Mend what differs.")] = False,
    unmanaged: Annotated[
        bool, typer.Option("--unmanaged", help="With --fix: also delete points and collections that are not ours.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make missing indexes and points again from the stored documents.")
    ] = False,
) -> None:
    """Compare the catalog with the vectors and the stored files, in both directions.

    Exit code 1 when something of ours differs and was not mended.

    Example: gircse check --fix
    """
    if (unmanaged and not fix) or (rebuild and fix):
        raise typer.BadParameter("use --fix, --fix --unmanaged, or --rebuild")
    if rebuild:
        _look(lambda difference: difference.kind in _REBUILT, removes_unmanaged=False)
    elif _look(lambda difference: fix, removes_unmanaged=unmanaged):
        typer.echo("`gircse check --fix` mends this.", err=True)
        raise typer.Exit(1)


def _look(is_to_mend: Callable[[Difference], bool], *, removes_unmanaged: bool) -> int:
    """How many things of ours differ and were not mended."""
    found: Counter[tuple[Inconsistency, str, str]] = Counter()
    with open_services() as services:
        consistency = ConsistencyCheck(catalog=services.catalog, index=services.index, blobs=services.blobs)
        for difference in consistency.differences():
            is_mended = is_to_mend(difference) and consistency.mend(difference, removes_unmanaged=removes_unmanaged)
            verdict = "mended" if is_mended else "left" if difference.kind in UNMANAGED else "found"
            found[difference.kind, difference.index, verdict] += difference.count
        if not found:
            typer.echo("Catalog and vectors agree.")
            return 0
        rows = [(count, kind, where, verdict) for (kind, where, verdict), count in sorted(found.items())]
        console.print_table(("count", "what", "index", ""), rows)
        if any(verdict == "mended" for _, _, verdict in found):
            _work_off(services)
    return sum(count for (_, _, verdict), count in found.items() if verdict == "found")


def _work_off(services: Services) -> None:
    """Waits until all queued jobs are done, by a running worker or else by one of its own."""
    total = _count_waiting(services)
    if not total:
        return
    columns = (TextColumn("taking in again"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with own_worker(services) as ensure_working, Progress(*columns, console=console.stderr) as progress:
        bar = progress.add_task("taking in again", total=total)
        while waiting := _count_waiting(services):
            ensure_working()
            progress.update(bar, completed=max(0, total - waiting))
            time.sleep(POLL_S)


def _count_waiting(services: Services) -> int:
    running = [each.name for each in services.catalog.collections() if not each.is_paused]
    counts = map(services.catalog.job_counts, running)
    return sum(count[JobState.QUEUED] + count[JobState.RUNNING] for count in counts)
