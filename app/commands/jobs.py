"""`gircse jobs`: list, retry, cancel, pause and resume ingestion jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands import terminal
from app.commands.documents import CollectionFilter, Limit
from app.commands.wiring import open_catalog
from app.types.documents import JobState

jobs = typer.Typer(no_args_is_help=True, help="List, retry, cancel and pause ingestion jobs.")

PausedCollection = Annotated[
    str | None, typer.Argument(metavar="COLLECTION", help="Default: all collections.", show_default=False)
]


@jobs.command("list")
def list_jobs(
    collection: CollectionFilter = None,
    state: Annotated[JobState | None, typer.Option(help="Only in this state.")] = None,
    limit: Limit = 100,
    as_json: terminal.JsonLines = False,
) -> None:
    """List jobs.

    Example: gircse jobs list --state dead
    """
    with open_catalog() as catalog:
        found = catalog.jobs(state=state, collection=collection, limit=limit + 1)
    if as_json:
        terminal.print_json_lines(found[:limit])
        terminal.note_more(found, limit)
        return
    rows = [
        (
            each.id,
            each.kind,
            each.priority,
            each.state,
            each.attempts,
            f"{each.progress:.0%}",
            each.document_id,
            each.error or "",
        )
        for each in found[:limit]
    ]
    columns = ("id", "kind", "priority", "state", "attempts", "progress", "document", "error")
    terminal.print_table(columns, rows)
    terminal.note_more(found, limit)


@jobs.command("retry")
def retry_jobs(
    job_ids: Annotated[
        list[str], typer.Argument(help="Ids of jobs, from `gircse jobs list`.", show_default=False)
    ] = [],  # noqa: B006
    all_dead: Annotated[
        bool, typer.Option("--all-dead", help="All dead jobs without a newer job for the same document.")
    ] = False,
    collection: CollectionFilter = None,
) -> None:
    """Queue failed, dead or cancelled jobs again.

    Example: gircse jobs retry --all-dead -c reading
    """
    if all_dead == bool(job_ids) or (collection and not all_dead):
        raise typer.BadParameter("name either jobs, or --all-dead and perhaps -c COLLECTION", param_hint="JOB_IDS")
    with open_catalog() as catalog:
        for job_id in job_ids:
            typer.echo(f"Job {catalog.retry(job_id).id} is queued.")
        if all_dead:
            typer.echo(f"{catalog.retry_dead(collection)} dead jobs are queued again.")


@jobs.command("pause")
def pause_jobs(collection: PausedCollection = None) -> None:
    """Pause the jobs of one collection, or of all present collections. Running jobs return to the queue.

    Example: gircse jobs pause reading
    """
    with open_catalog() as catalog:
        typer.echo(f"Paused: {', '.join(catalog.pause(collection)) or 'there is no collection'}.")


@jobs.command("resume")
def resume_jobs(collection: PausedCollection = None) -> None:
    """Resume the jobs of a paused collection, or of all collections."""
    with open_catalog() as catalog:
        typer.echo(f"Resumed: {', '.join(catalog.resume(collection)) or 'there is no collection'}.")


@jobs.command("cancel")
def cancel_jobs(
    job_ids: Annotated[list[str], typer.Argument(help="Ids from `gircse jobs list`.", show_default=False)],
) -> None:
    """Cancel jobs. A running job writes nothing more and stops within two seconds, or after the current batch."""
    with open_catalog() as catalog:
        for job_id in job_ids:
            job = catalog.cancel(job_id)
            typer.echo(f"Job {job.id} is {job.state}.")
