"""`gircse collections`: list, show, create and delete collections, and drop a previous index kept for a roll-back."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands import terminal
from app.commands.chosen_collection import OnlyCollection, only_collection
from app.commands.reindex import prune
from app.commands.wiring import open_catalog, open_services
from app.types.defaults import CHUNK_OVERLAP, CHUNK_TOKENS

collections = typer.Typer(no_args_is_help=True, help="List, show, create and delete collections.")

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@collections.command("list")
def list_collections(as_json: terminal.JsonLines = False) -> None:
    """List collections."""
    with open_catalog() as catalog:
        found = catalog.collections()
    if as_json:
        terminal.print_json_lines(found)
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
    terminal.print_table(columns, rows)


@collections.command("show")
def show_collection(name: OnlyCollection = None, _: terminal.IsJson = False) -> None:
    """Show all data of a collection as JSON."""
    with open_catalog() as catalog:
        typer.echo(terminal.json_of(catalog.counted_collection(only_collection(name, catalog))))


@collections.command("create")
def create_collection(
    name: Annotated[str, typer.Argument(help="Name of the collection.", show_default=False)],
    document_instruction: Annotated[
        str | None, typer.Option(help="Instruction for documents; '': none. Default: the model's own.")
    ] = None,
    document_steps: Annotated[
        int | None, typer.Option(min=0, help="Refinement steps of documents. Default: the model's own.")
    ] = None,
    chunk_tokens: Annotated[int, typer.Option(help="Maximum length of a chunk in model tokens.")] = CHUNK_TOKENS,
    chunk_overlap: Annotated[int, typer.Option(help="Tokens shared with the previous chunk.")] = CHUNK_OVERLAP,
    chunk_context: Annotated[bool, typer.Option(help="Embed chunks with the title and headings above them.")] = True,
    chunk_structure: Annotated[bool, typer.Option(help="Split at sections, page ends and rows.")] = True,
) -> None:
    """Create an empty collection. `gircse ingest` and `gircse sources add` also create missing collections.

    Example: gircse collections create reading --chunk-tokens 120 --chunk-overlap 20
    """
    with open_services() as services:
        made = services.library.create_collection(
            name,
            document_instruction=document_instruction,
            document_steps=document_steps,
            chunk_tokens=chunk_tokens,
            chunk_overlap=chunk_overlap,
            chunk_context=chunk_context,
            chunk_structure=chunk_structure,
        )
    typer.echo(f"Created the collection {made.name!r}.")


@collections.command("delete")
def delete_collection(
    name: Annotated[str, typer.Argument(help="Name of the collection.", show_default=False)], yes: Yes = False
) -> None:
    """Delete a collection with all its documents and vectors."""
    with open_services() as services:
        count = services.catalog.counted_collection(name).document_count
        if not yes:
            terminal.confirm_deletion(f"Delete the collection {name!r} with {count} documents?")
        services.library.delete_collection(name)
    typer.echo(f"Deleted the collection {name!r}.")


collections.command("prune")(prune)
