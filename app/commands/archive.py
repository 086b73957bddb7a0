"""`gircse export` and `gircse import`: write a collection to one file and read it back, here or on another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.commands import terminal
from app.commands.wiring import open_services, wiring
from app.errors import ConflictError

PASSES = 3  # import reads the archive to verify it, to fill the index, and to fill the catalog


def export(
    collection: Annotated[str, typer.Argument(help="Collection to export.")],
    file: Annotated[Path, typer.Argument(help="Archive to write: *.tar.zst or *.tar.gz.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Export a collection to one file: documents, texts, chunks, vectors, lenses, judgements and model contract.

    Example: gircse export reading reading.tar.zst
    """
    if file.exists() and not force:
        raise ConflictError(f"{file} already exists. Choose another name, or use --force.")
    with open_services() as services:
        total = services.catalog.counted_collection(collection).document_count
        columns = (TextColumn("packing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=terminal.stderr) as progress:
            bar = progress.add_task("packing", total=total)
            packed = (
                wiring("transfer")
                .transfer_of(services)
                .export_collection(
                    collection, file, on_progress=lambda documents: progress.update(bar, completed=documents)
                )
            )
    size = file.stat().st_size / 1e6
    typer.echo(f"Exported {packed.documents} documents with {packed.chunks} chunks to {file} ({size:.1f} MB).")


def import_(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Archive written by `gircse export`.")],
    name: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Import under another name.")] = None,
) -> None:
    """Import a collection that was exported here or on another machine. The whole archive is verified first.

    Example: gircse import reading.tar.zst --as reading-2
    """
    with open_services() as services:
        columns = (TextColumn("verifying and unpacking"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=terminal.stderr) as progress:
            bar = progress.add_task("unpacking", total=PASSES * file.stat().st_size)
            position = 0

            def on_progress(present: int) -> None:
                """`present` is the position in the file; each pass starts at 0 again."""
                nonlocal position
                progress.advance(bar, present - position if present >= position else present)
                position = present

            report = (
                wiring("transfer").transfer_of(services).import_collection(file, name=name, on_progress=on_progress)
            )
    typer.echo(
        f"Imported the collection {report.collection!r}: {report.documents} documents with {report.chunks} chunks."
    )
    for lens in report.lenses_kept:
        typer.echo(f"Your lens {lens!r} differs from the archive's; yours was kept.")
