"""What `gircse doctor --orphans` and `--rebuild` do: print how catalog and vectors differ, and mend it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.collections.consistency import UNMANAGED, Audit, Difference, Fault
from app.commands import console
from app.commands.composition import open_services
from app.commands.working import own_worker
from app.services import Services
from app.types.documents import JobState

POLL_S = 0.2
_REBUILT = frozenset({Fault.MISSING_INDEX, Fault.MISSING_POINTS, Fault.WRONG_POINTS, Fault.WRONG_ALIAS})


def find_orphans(*, fix: bool, foreign: bool) -> None:
    """Exit code 1 when something differs that is ours and was not mended."""
    left = _look(lambda difference: fix, removes_unmanaged=fix and foreign)
    if left:
        typer.echo("`gircse doctor --orphans --fix` mends this.", err=True)
        raise typer.Exit(1)


def rebuild() -> None:
    _look(lambda difference: difference.fault in _REBUILT, removes_unmanaged=False)


def _look(is_to_mend: Callable[[Difference], bool], *, removes_unmanaged: bool) -> int:
    """How many things of ours differ and were not mended."""
    found: Counter[tuple[Fault, str, str]] = Counter()
    with open_services() as services:
        audit = Audit(catalog=services.catalog, index=services.index, blobs=services.blobs)
        for difference in audit.differences():
            is_mended = is_to_mend(difference) and audit.mend(difference, removes_unmanaged=removes_unmanaged)
            verdict = "mended" if is_mended else "left" if difference.fault in UNMANAGED else "found"
            found[difference.fault, difference.index, verdict] += difference.count
        if not found:
            typer.echo("Catalog and vectors agree.")
            return 0
        rows = [(count, fault, where, verdict) for (fault, where, verdict), count in sorted(found.items())]
        console.stdout.print(console.plain_table(("count", "what", "index", ""), rows))
        if any(verdict == "mended" for _, _, verdict in found):
            _work_off(services)
    return sum(count for (_, _, verdict), count in found.items() if verdict == "found")


def _work_off(services: Services) -> None:
    """Waits until what is queued is taken in, by a worker that is there or by one of its own."""
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
