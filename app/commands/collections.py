"""`gircse collections`: list, show and delete collections, and drop a previous index kept for a roll-back."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands import console
from app.commands.composition import open_catalog, open_services
from app.commands.reindex import prune
from app.errors import ConflictError

collections = typer.Typer(no_args_is_help=True, help="List, show and delete collections.")

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@collections.command("list")
def list_collections(as_json: console.JsonLines = False) -> None:
    """List collections."""
    with open_catalog() as catalog:
        found = catalog.collections()
    if as_json:
        console.print_json_lines(found)
        return
    rows = [
        (
            each.name,
            each.document_count,
            each.chunk_count,
            each.document_steps,
            each.fingerprint[:12],
            "yes" if each.is_paused else "",
        )
        for each in found
    ]
    columns = ("name", "documents", "chunks", "document steps", "model fingerprint", "paused")
    console.print_table(columns, rows)


@collections.command("show")
def show_collection(name: str, _: console.IsJson = False) -> None:
    """Show all data of a collection as JSON."""
    with open_catalog() as catalog:
        typer.echo(console.json_of(catalog.counted_collection(name)))


@collections.command("delete")
def delete_collection(name: str, yes: Yes = False) -> None:
    """Delete a collection with all its documents and vectors."""
    with open_services() as services:
        count = services.catalog.counted_collection(name).document_count
        if not yes and not typer.confirm(f"Delete the collection {name!r} with {count} documents?"):
            raise ConflictError("Nothing was deleted.")
        services.library.delete_collection(name)
    typer.echo(f"Deleted the collection {name!r}.")


collections.command("prune")(prune)
