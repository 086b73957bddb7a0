"""`gircse export` and `gircse import`: a collection as one file, for a backup or another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.commands import console
from app.commands.composition import open_services, wiring
from app.errors import ConflictError

READINGS = 3  # an archive is verified, written into the index, and recorded in the catalog


def export(
    collection: Annotated[str, typer.Argument(help="What to pack.")],
    file: Annotated[Path, typer.Argument(help="Where to: *.tar.zst or *.tar.gz.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Pack a collection into one file: documents, texts, chunks, vectors, lenses, judgements, and the contract.

    Example: gircse export reading reading.tar.zst
    """
    if file.exists() and not force:
        raise ConflictError(f"{file} is there already; take another name, or --force.")
    with open_services() as services:
        total = services.catalog.counted_collection(collection).document_count
        columns = (TextColumn("packing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console.stderr) as progress:
            bar = progress.add_task("packing", total=total)
            packed = (
                wiring("transfer")
                .transfer_of(services)
                .export_collection(collection, file, tell=lambda documents: progress.update(bar, completed=documents))
            )
    size = file.stat().st_size / 1e6
    typer.echo(f"{packed.documents} documents with {packed.chunks} chunks are in {file} ({size:.1f} MB).")


def import_(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="What `gircse export` has written.")],
    name: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Under another name.")] = None,
) -> None:
    """Bring in a collection that was packed here or on another machine. It must be verified to the last byte first.

    Example: gircse import reading.tar.zst --as reading-2
    """
    with open_services() as services:
        columns = (TextColumn("verifying and unpacking"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console.stderr) as progress:
            bar = progress.add_task("unpacking", total=READINGS * file.stat().st_size)
            position = 0

            def tell(present: int) -> None:
                """Every reading begins at 0 again."""
                nonlocal position
                progress.advance(bar, present - position if present >= position else present)
                position = present

            made = wiring("transfer").transfer_of(services).import_collection(file, name=name, tell=tell)
    typer.echo(f"The collection {made.collection!r} is there: {made.documents} documents with {made.chunks} chunks.")
    for lens in made.lenses_kept:
        typer.echo(f"You have another lens {lens!r} than the archive; yours is kept.")
