"""`gircse backup` and `gircse restore`: the whole installation as one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.collections.backup import BackupFacts, BackupReader
from app.commands import console
from app.commands.composition import open_services, wiring
from app.commands.mending import rebuild_damaged
from app.errors import ConflictError
from app.settings import Settings, load_settings

_MAX_TOLD = 20
# What a restored catalog may lean on.
_COMPARED = ("model", "database_url", "qdrant_url", "embedder_url", "access_control")


def backup(
    file: Annotated[Path, typer.Argument(help="Where to: *.tar.zst or *.tar.gz.")],
    indexes: Annotated[
        bool, typer.Option("--indexes", help="Pack vectors, too: larger, and nothing is embedded again.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Pack the installation into one file while it serves: catalog, files, texts, settings without secrets.

    Example: gircse backup /mnt/backup/gircse.tar.zst
    """
    if file.exists() and not force:
        raise ConflictError(f"{file} is there already; take another name, or --force.")
    with open_services() as services:
        total = sum(each.document_count for each in services.catalog.collections())
        columns = (TextColumn("packing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console.stderr) as progress:
            bar = progress.add_task("packing", total=total)
            facts: BackupFacts = wiring("backup").write_backup(
                services, file, with_indexes=indexes, tell=lambda done: progress.update(bar, completed=done)
            )
    size = file.stat().st_size / 1e6
    typer.echo(f"{file} holds the catalog and the files of {facts.documents} documents ({size:.1f} MB).")
    if facts.lost:
        typer.echo("Missing or altered already, and not in it:", err=True)
        _tell(facts.lost)
        raise typer.Exit(1)


def restore(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="What `gircse backup` has written.")],
    force: Annotated[
        bool, typer.Option("--force", help="Also over a catalog that is in use; its file is kept beside it.")
    ] = False,
    files: Annotated[
        bool, typer.Option("--files", help="Only put back stored files that are missing or altered; may run any time.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild/--no-rebuild", help="Make indexes anew that the backup has not.")
    ] = True,
) -> None:
    """Put an installation back from a backup, here or on an empty machine. It must be verified to the last byte first.

    Example: gircse restore /mnt/backup/gircse.tar.zst
    """
    settings = load_settings()
    parts = wiring("backup")
    if not files:
        parts.require_stopped(settings)
        if not force and parts.is_in_use(settings):
            raise ConflictError(
                "There is a catalog here already. `--force` puts the backup in its place; `--files` only puts back "
                "stored files that are missing or altered."
            )
    archive = BackupReader(file)
    count = parts.restore_files(settings, archive)
    typer.echo(f"{count} stored files were missing or altered, and are put back.")
    if files:
        return
    aside = parts.restore_catalog(settings, archive)
    typer.echo(f"The catalog is that of {archive.facts.made_at}, with {archive.facts.documents} documents.")
    if aside is not None:
        typer.echo(f"The former one is in {aside}.")
    _tell_settings(settings, archive.facts)
    if archive.facts.lost:
        typer.echo("Missing already when the backup was made:", err=True)
        _tell(archive.facts.lost)
    with open_services(settings) as services:
        if archive.put_points(services.index):
            for collection in services.catalog.collections():
                services.index.point_to(collection.name, collection.active_index)
                services.catalog.queue_lens_indexes(collection.name, is_lost=True)
        if rebuild:
            rebuild_damaged(services, mends_all=True)
        else:
            typer.echo("`gircse doctor --rebuild` makes the indexes.")


def _tell_settings(settings: Settings, facts: BackupFacts) -> None:
    here = wiring("backup").settings_without_secrets(settings)
    for name in _COMPARED:
        there = facts.settings.get(name)
        if there != here.get(name):
            typer.echo(
                f"Another setting than there: GIRCSE_{name.upper()} was {there!r}, and is {here.get(name)!r}.", err=True
            )


def _tell(uris: tuple[str, ...]) -> None:
    for uri in uris[:_MAX_TOLD]:
        typer.echo(f"  {console.printable(uri)}", err=True)
    if len(uris) > _MAX_TOLD:
        typer.echo(f"  {len(uris) - _MAX_TOLD} more", err=True)
