"""`gircse optimize`: merges the segments of an index, for use after a bulk load or many deletions."""

from __future__ import annotations

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from app.commands import terminal
from app.commands.chosen_collection import OnlyCollection, only_collection
from app.commands.wiring import open_catalog, wiring
from app.maintenance.optimize import OptimizeReport, optimize_index
from app.settings import load_settings
from app.types.documents import IndexStatus


def optimize(collection: OnlyCollection = None) -> None:
    """Merge the segments of a collection's index and drop deleted points. Searches continue.

    You can stop or kill it at any time: nothing is lost. The next run starts over.

    Example: gircse optimize reading
    """
    settings = load_settings()
    with (
        open_catalog(settings) as catalog,
        wiring("index").open_index(settings) as index,
        Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=terminal.stderr
        ) as bar,
    ):
        collection = only_collection(collection, catalog)
        name = catalog.collection(collection).active_index
        task = bar.add_task("asking the engine", total=None)
        try:
            report = optimize_index(
                index,
                name,
                on_progress=lambda condition: bar.update(
                    task, description=condition.activity or "waiting for the engine"
                ),
            )
        except KeyboardInterrupt:
            typer.echo(
                f"Stopped watching. {collection!r} is complete and searchable. An engine that still runs, in "
                "`gircse up` or on a server, continues; otherwise run this again.",
                err=True,
            )
            raise
    typer.echo(_summary(collection, report))


def _summary(collection: str, report: OptimizeReport) -> str:
    before, after = _shape(report.before), _shape(report.after)
    difference = f" (before: {before})" if before != after else ""
    return f"Optimized {collection!r} in {report.seconds:.0f} s: {after}{difference}."


def _shape(condition: IndexStatus) -> str:
    segments = "1 segment" if condition.segments == 1 else f"{condition.segments} segments"
    return f"{condition.points:,} points in {segments}, {condition.indexed_vectors:,} vectors indexed"
