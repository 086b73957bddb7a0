"""`gircse sources`: pages, feeds, repositories, mailboxes and buckets that are synced on a schedule."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from app.api.sources import RecurringSourceAnswer
from app.collections.credentials_folder import CredentialsFolder
from app.commands import terminal
from app.commands.chosen_collection import InCollection, TargetCollection, chosen_collection, target_collection
from app.commands.wiring import open_catalog, open_services
from app.errors import UnknownCollectionError
from app.settings import load_settings
from app.types.access import OPERATOR
from app.types.source_addresses import check_source
from app.types.sources import SourceKind, SourceOptions

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

sources = typer.Typer(
    no_args_is_help=True,
    help="Pages, feeds, sitemaps, repositories, mailboxes and buckets that are synced on a schedule.",
)

Id = Annotated[str, typer.Argument(help="Id from `gircse sources list`.", show_default=False)]


@sources.command("add")
def add_source(
    kind: Annotated[SourceKind, typer.Argument(help="Kind of the source.", show_default=False)],
    address: Annotated[str, typer.Argument(help="https://host/path, or an address of the kind.", show_default=False)],
    collection: TargetCollection = None,
    every_minutes: Annotated[float, typer.Option("--every", metavar="MINUTES", help="Sync interval.")] = 1_440,
    removes: Annotated[
        bool, typer.Option("--remove", help="Delete documents whose item disappeared from the source.")
    ] = False,
    patterns: Annotated[
        list[str] | None,
        typer.Option("--glob", help="git, s3: path pattern (.gitignore syntax); imap: folder. Repeatable."),
    ] = None,
    branch: Annotated[str, typer.Option(help="git: branch or tag.", show_default=False)] = "",
    credentials: Annotated[
        str, typer.Option(help="Name of a file in GIRCSE_CREDENTIALS_FOLDER.", show_default=False)
    ] = "",
) -> None:
    """Add a source that the worker syncs on a schedule: a page, the pages of a feed or sitemap, the files of a git
    repository, the messages of a mailbox (imap) or the objects of a bucket (s3).

    Example: gircse sources add git https://example.org/handbook.git -c handbook --glob 'docs/*.md' --every 60
    """
    every, options = timedelta(minutes=every_minutes), SourceOptions(tuple(patterns or ()), branch, credentials)
    address = check_source(kind, address, every=every, options=options)
    if credentials:
        folder = CredentialsFolder(load_settings().credentials_folder)
        folder.find(credentials, user=OPERATOR.name, address=address)
    with open_catalog() as catalog:
        target = target_collection(collection, catalog)
        _ensure_collection(target, catalog)
        found = catalog.sources.add(
            target, kind, address, every=every, removes=removes, owner=OPERATOR.name, options=options
        )
    typer.echo(f"Added {terminal.address(found.address)} to {target!r} as {found.id}; a running worker syncs it now.")


@sources.command("list")
def list_sources(collection: InCollection = None, as_json: terminal.JsonLines = False) -> None:
    """List the sources of a collection with the results of their last sync."""
    with open_catalog() as catalog:
        found = catalog.sources.of_collection(chosen_collection(collection, catalog))
    if as_json:
        terminal.print_json_lines(RecurringSourceAnswer.of(each) for each in found)
        return
    rows = [
        (
            each.id,
            each.kind.value,
            terminal.address(each.address),
            each.items,
            each.changed,
            each.removed,
            each.failed,
            f"{each.last_at:%Y-%m-%d %H:%M}" if each.last_at else "",
            f"{each.next_at:%Y-%m-%d %H:%M}",
            each.error or "",
        )
        for each in found
    ]
    names = ("id", "kind", "address", "items", "changed", "removed", "failed", "last", "next", "error")
    terminal.print_table(names, rows)


@sources.command("run")
def run_source(source_id: Id) -> None:
    """Schedule the next sync of a source for now."""
    with open_catalog() as catalog:
        typer.echo(f"{terminal.address(catalog.sources.hurry(source_id).address)} is due now.")


@sources.command("delete")
def delete_source(source_id: Id) -> None:
    """Delete a source. Its documents are kept."""
    with open_catalog() as catalog:
        catalog.sources.delete(source_id)
    typer.echo("Deleted the source. Its documents are kept.")


def _ensure_collection(name: str, catalog: SqlCatalog) -> None:
    """Opens the services only for a new collection: they need the model and the index."""
    try:
        catalog.collection(name)
    except UnknownCollectionError:
        with open_services() as services:
            services.library.create_collection(name)
        typer.echo(f"Created the collection {name!r}.")
