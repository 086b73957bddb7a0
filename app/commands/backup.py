"""`gircse backup` and `gircse restore`: write the whole installation to one file and restore it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.commands import console
from app.commands.composition import open_services, wiring
from app.commands.mending import rebuild_damaged
from app.errors import ConflictError
from app.maintenance.backup import BackupFacts, BackupReader
from app.settings import Settings, load_settings
from app.types.printable import printable

_MAX_LISTED = 20
# Settings on which a restored catalog may depend.
_COMPARED = ("model", "database_url", "qdrant_url", "embedder_url", "access_control")


def backup(
    file: Annotated[Path, typer.Argument(help="Backup file to write: *.tar.zst or *.tar.gz.")],
    indexes: Annotated[
        bool, typer.Option("--indexes", help="Include vectors: larger, but a restore embeds nothing again.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Back up the installation to one file while it runs: catalog, files, texts, and settings without secrets.

    Example: gircse backup /mnt/backup/gircse.tar.zst
    """
    if file.exists() and not force:
        raise ConflictError(f"{file} already exists. Choose another name, or use --force.")
    with open_services() as services:
        total = sum(each.document_count for each in services.catalog.collections())
        columns = (TextColumn("packing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console.stderr) as progress:
            bar = progress.add_task("packing", total=total)
            facts: BackupFacts = wiring("backup").write_backup(
                services, file, with_indexes=indexes, tell=lambda done: progress.update(bar, completed=done)
            )
    size = file.stat().st_size / 1e6
    typer.echo(f"{file} contains the catalog and the files of {facts.documents} documents ({size:.1f} MB).")
    if facts.lost:
        typer.echo("Not in the backup, because the stored file is missing or altered:", err=True)
        _print_uris(facts.lost)
        raise typer.Exit(1)


def restore(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Backup written by `gircse backup`.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing catalog; its file is kept under another name.")
    ] = False,
    files: Annotated[
        bool, typer.Option("--files", help="Only restore stored files that are missing or altered. Safe at any time.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild/--no-rebuild", help="Rebuild indexes that the backup does not contain.")
    ] = True,
) -> None:
    """Restore an installation from a backup, here or on an empty machine. The whole backup is verified first.

    Example: gircse restore /mnt/backup/gircse.tar.zst
    """
    settings = load_settings()
    parts = wiring("backup")
    if not files:
        parts.require_stopped(settings)
        if not force and parts.is_in_use(settings):
            raise ConflictError(
                "A catalog already exists here. `--force` replaces it with the backup; `--files` only restores stored "
                "files that are missing or altered."
            )
    archive = BackupReader(file)
    count = parts.restore_files(settings, archive)
    typer.echo(f"Restored {count} stored files that were missing or altered.")
    if files:
        return
    aside = parts.restore_catalog(settings, archive)
    typer.echo(f"Restored the catalog of {archive.facts.made_at} with {archive.facts.documents} documents.")
    if aside is not None:
        typer.echo(f"The previous catalog was moved to {aside}.")
    _print_changed_settings(settings, archive.facts)
    if archive.facts.lost:
        typer.echo("Already missing when the backup was made:", err=True)
        _print_uris(archive.facts.lost)
    with open_services(settings) as services:
        if archive.put_points(services.index):
            for collection in services.catalog.collections():
                services.index.point_to(collection.name, collection.active_index)
                services.catalog.lens_indexes.queue_all(collection.name, is_lost=True)
        if rebuild:
            rebuild_damaged(services, mends_all=True)
        else:
            typer.echo("`gircse doctor --rebuild` builds the indexes.")


def _print_changed_settings(settings: Settings, facts: BackupFacts) -> None:
    here = wiring("backup").settings_without_secrets(settings)
    for name in _COMPARED:
        there = facts.settings.get(name)
        if there != here.get(name):
            typer.echo(
                f"GIRCSE_{name.upper()} differs from the backup: it was {there!r} and is {here.get(name)!r} now.",
                err=True,
            )


def _print_uris(uris: tuple[str, ...]) -> None:
    for uri in uris[:_MAX_LISTED]:
        typer.echo(f"  {printable(uri)}", err=True)
    if len(uris) > _MAX_LISTED:
        typer.echo(f"  {len(uris) - _MAX_LISTED} more", err=True)
