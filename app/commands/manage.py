"""`gircse documents`, `jobs` and `collections`: list, show, retry, pause, delete."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands import console
from app.commands.composition import open_catalog, open_services
from app.errors import ConflictError
from app.types.documents import DocumentState, JobState

documents = typer.Typer(no_args_is_help=True, help="List, show and delete documents.")
jobs = typer.Typer(no_args_is_help=True, help="List, retry, cancel and pause ingestion jobs.")
collections = typer.Typer(no_args_is_help=True, help="List, show and delete collections.")

CollectionFilter = Annotated[str | None, typer.Option("--collection", "-c", help="Only of this collection.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")]
PausedCollection = Annotated[
    str | None, typer.Argument(metavar="COLLECTION", help="Without it: every one.", show_default=False)
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@documents.command("list")
def list_documents(
    collection: CollectionFilter = None,
    state: Annotated[DocumentState | None, typer.Option(help="Only in this state.")] = None,
    limit: Limit = 100,
) -> None:
    """List documents.

    Example: gircse documents list --state failed
    """
    with open_catalog() as catalog:
        rows = [
            (each.id, each.collection, each.state, each.chunk_count, each.title, each.error or "")
            for each in catalog.documents(collection, state=state, limit=limit)
        ]
    console.stdout.print(console.plain_table(("id", "collection", "state", "chunks", "title", "error"), rows))


@documents.command("show")
def show_document(document_id: str) -> None:
    """Show everything that is known about a document, as JSON."""
    with open_catalog() as catalog:
        typer.echo(console.json_of(catalog.document(document_id)))


@documents.command("delete")
def delete_documents(document_ids: list[str]) -> None:
    """Delete documents with all their points. The worker does it; without one it waits for the next."""
    with open_catalog() as catalog:
        for document_id in document_ids:
            catalog.submit_delete(document_id)
            typer.echo(f"Deletion of {document_id} is queued; a running `gircse up` or `gircse worker` does it.")


@jobs.command("list")
def list_jobs(
    collection: CollectionFilter = None,
    state: Annotated[JobState | None, typer.Option(help="Only in this state.")] = None,
    limit: Limit = 100,
) -> None:
    """List jobs.

    Example: gircse jobs list --state dead
    """
    with open_catalog() as catalog:
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
            for each in catalog.jobs(state=state, collection=collection, limit=limit)
        ]
    columns = ("id", "kind", "priority", "state", "attempts", "progress", "document", "error")
    console.stdout.print(console.plain_table(columns, rows))


@jobs.command("retry")
def retry_jobs(
    job_ids: Annotated[list[str], typer.Argument(help="Jobs to queue again.", show_default=False)] = [],  # noqa: B006
    all_dead: Annotated[
        bool, typer.Option("--all-dead", help="Every dead job that nothing newer has replaced.")
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
    """Let the jobs of a collection wait, or those of every collection there is now; running ones are given back.

    Example: gircse jobs pause reading
    """
    with open_catalog() as catalog:
        typer.echo(f"Paused: {', '.join(catalog.pause(collection)) or 'there is no collection'}.")


@jobs.command("resume")
def resume_jobs(collection: PausedCollection = None) -> None:
    """Let the jobs of a paused collection, or of all, run again."""
    with open_catalog() as catalog:
        typer.echo(f"Resumed: {', '.join(catalog.resume(collection)) or 'there is no collection'}.")


@jobs.command("cancel")
def cancel_jobs(job_ids: list[str]) -> None:
    """Cancel jobs. A running one writes nothing more and stops within two seconds, or with the batch being embedded."""
    with open_catalog() as catalog:
        for job_id in job_ids:
            job = catalog.cancel(job_id)
            typer.echo(f"Job {job.id} is {job.state}.")


@collections.command("list")
def list_collections() -> None:
    """List collections."""
    with open_catalog() as catalog:
        rows = [
            (
                each.name,
                each.document_count,
                each.chunk_count,
                each.document_steps,
                each.fingerprint[:12],
                "yes" if each.is_paused else "",
            )
            for each in catalog.collections()
        ]
    columns = ("name", "documents", "chunks", "document steps", "model fingerprint", "paused")
    console.stdout.print(console.plain_table(columns, rows))


@collections.command("show")
def show_collection(name: str) -> None:
    """Show everything that is known about a collection, as JSON."""
    with open_catalog() as catalog:
        typer.echo(console.json_of(catalog.counted_collection(name)))


@collections.command("delete")
def delete_collection(name: str, yes: Yes = False) -> None:
    """Delete a collection with all its documents and points."""
    with open_services() as services:
        count = services.catalog.counted_collection(name).document_count
        if not yes and not typer.confirm(f"Delete the collection {name!r} with {count} documents?"):
            raise ConflictError("Nothing was deleted.")
        services.library.delete_collection(name)
    typer.echo(f"The collection {name!r} is deleted.")
