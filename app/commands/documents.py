"""`gircse documents`: list, show, delete."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands import console
from app.commands.composition import open_catalog
from app.types.documents import DocumentState

documents = typer.Typer(no_args_is_help=True, help="List, show and delete documents.")

CollectionFilter = Annotated[str | None, typer.Option("--collection", "-c", help="Only of this collection.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")]


@documents.command("list")
def list_documents(
    collection: CollectionFilter = None,
    state: Annotated[DocumentState | None, typer.Option(help="Only in this state.")] = None,
    limit: Limit = 100,
    as_json: console.JsonLines = False,
) -> None:
    """List documents.

    Example: gircse documents list --state failed
    """
    with open_catalog() as catalog:
        found = catalog.documents(collection, state=state, limit=limit)
    if as_json:
        console.print_json_lines(found)
        return
    rows = [(each.id, each.collection, each.state, each.chunk_count, each.title, each.error or "") for each in found]
    console.print_table(("id", "collection", "state", "chunks", "title", "error"), rows)


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
