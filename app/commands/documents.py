"""`gircse documents`: list, show, delete, restore and move documents."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from app.commands import terminal
from app.commands.wiring import open_catalog, open_services
from app.types.defaults import MAX_DELETE_DELAY_S
from app.types.documents import DocumentState

documents = typer.Typer(no_args_is_help=True, help="List, show, delete, restore and move documents.")

CollectionFilter = Annotated[str | None, typer.Option("--collection", "-c", help="Only this collection.")]
DocumentId = Annotated[str, typer.Argument(help="Id from `gircse documents list`.", show_default=False)]
DocumentIds = Annotated[list[str], typer.Argument(help="Ids from `gircse documents list`.", show_default=False)]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of results.")]


@documents.command("list")
def list_documents(
    collection: CollectionFilter = None,
    state: Annotated[DocumentState | None, typer.Option(help="Only in this state.")] = None,
    limit: Limit = 100,
    as_json: terminal.JsonLines = False,
) -> None:
    """List documents.

    Example: gircse documents list --state failed
    """
    with open_catalog() as catalog:
        found = catalog.documents(collection, state=state, limit=limit + 1)
    if as_json:
        terminal.print_json_lines(found[:limit])
        terminal.note_more(found, limit)
        return
    rows = [
        (each.id, each.collection, each.state, each.chunk_count, each.title, each.error or " ".join(each.left_out))
        for each in found[:limit]
    ]
    terminal.print_table(("id", "collection", "state", "chunks", "title", "error or left out"), rows)
    terminal.note_more(found, limit)


@documents.command("show")
def show_document(document_id: DocumentId, _: terminal.IsJson = False) -> None:
    """Show all data of a document as JSON."""
    with open_catalog() as catalog:
        typer.echo(terminal.json_of(catalog.document(document_id)))


@documents.command("delete")
def delete_documents(
    document_ids: DocumentIds,
    delay: Annotated[
        float,
        typer.Option(
            min=0, max=MAX_DELETE_DELAY_S, help="Seconds before the deletion, in which the documents can be restored."
        ),
    ] = 0,
) -> None:
    """Queue the deletion of documents with all their vectors. The next running worker performs it.

    Searches hide the documents from now on.
    """
    with open_catalog() as catalog:
        for document_id in document_ids:
            catalog.submit_delete(document_id, delay=timedelta(seconds=delay))
            typer.echo(f"Deletion of {document_id} is queued; a running `gircse up` or `gircse worker` does it.")


@documents.command("restore")
def restore_documents(document_ids: DocumentIds) -> None:
    """Cancel deletions that no worker has finished."""
    with open_catalog() as catalog:
        for document_id in document_ids:
            catalog.restore_document(document_id)
            typer.echo(f"{document_id} is restored; its ingestion is queued.")


@documents.command("move")
def move_documents(
    document_ids: DocumentIds,
    to: Annotated[str, typer.Option("--to", help="Target collection.", show_default=False)],
) -> None:
    """Move documents to another collection, all or none: their stored files are ingested there.

    Example: gircse documents move 0f0c5e0a-7a9b-4f3f-a1a5-2f6d3f8f0d11 --to letters
    """
    with open_services() as services:
        for document, _ in services.library.move_documents(document_ids, to):
            typer.echo(f"{terminal.address(document.uri)} is {document.id} in {document.collection}.")
    typer.echo("A running `gircse up` or `gircse worker` ingests them there.")
