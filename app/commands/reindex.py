"""`gircse reindex` and `rollback`: change a collection's model, instruction or splitter, and undo it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.commands import terminal
from app.commands.chosen_collection import OnlyCollection, only_collection
from app.commands.wiring import open_services, wiring
from app.errors import ConflictError
from app.maintenance.reindex import ReindexReport
from app.settings import load_settings
from app.types.documents import Collection
from app.types.printable import printable
from app.types.upkeep import ContractChange

MAX_LISTED = 50


def reindex(
    collection: OnlyCollection = None,
    model: Annotated[str | None, typer.Option(help="Overrides GIRCSE_MODEL.")] = None,
    document_instruction: Annotated[str | None, typer.Option(help="Instruction for documents; '': none.")] = None,
    document_steps: Annotated[int | None, typer.Option(help="Refinement steps of documents.")] = None,
    chunk_tokens: Annotated[int | None, typer.Option(help="Maximum length of a chunk in model tokens.")] = None,
    chunk_overlap: Annotated[int | None, typer.Option(help="Tokens shared with the previous chunk.")] = None,
    chunk_context: Annotated[
        bool | None, typer.Option(help="Embed chunks with the title and headings above them.")
    ] = None,
    chunk_structure: Annotated[bool | None, typer.Option(help="Split at sections, page ends and rows.")] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Discard the unfinished index of an earlier run.")] = False,
) -> None:
    """Build a new index for a collection. The present index serves searches until the new one is complete.

    If interrupted, run it again to resume.

    Example: gircse reindex reading --chunk-tokens 120 --chunk-overlap 20
    """
    change = ContractChange(
        document_instruction, document_steps, chunk_tokens, chunk_overlap, chunk_context, chunk_structure
    )
    with (
        open_services(load_settings(model=model)) as services,
        wiring("ingestion").open_reindexer(services) as reindexer,
    ):
        target = reindexer.begin(only_collection(collection, services.catalog), change, restart=restart)
        columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=terminal.stderr) as progress:
            bar = progress.add_task("indexing", total=None)
            report = reindexer.build(
                target, on_progress=lambda done, total: progress.update(bar, completed=done, total=total)
            )
    _print_summary(target, report)
    if model is not None:
        typer.echo(
            f"Restart every server and worker with this model (`gircse up --model {model}` or GIRCSE_MODEL). Until "
            f"then they refuse {target.name!r}."
        )


def rollback(collection: OnlyCollection = None) -> None:
    """Switch back to the index before the last reindex; run again, it switches forward. Documents that changed since
    then are queued for ingestion.

    Example: gircse rollback reading
    """
    with open_services() as services, wiring("ingestion").open_reindexer(services) as reindexer:
        now = reindexer.roll_back(only_collection(collection, services.catalog))
    typer.echo(f"{now.name!r} uses the index {now.active_index} again (model fingerprint {now.fingerprint[:12]}).")


def prune(collection: OnlyCollection = None) -> None:
    """Drop the previous index that is kept for `gircse rollback`.

    Example: gircse collections prune reading
    """
    with open_services() as services, wiring("ingestion").open_reindexer(services) as reindexer:
        collection = only_collection(collection, services.catalog)
        dropped = reindexer.prune(collection)
    if dropped is None:
        raise ConflictError(f"The collection {collection!r} has no previous index.")
    typer.echo(f"Dropped {dropped}.")


def _print_summary(target: Collection, report: ReindexReport) -> None:
    typer.echo(
        f"{target.name!r} uses the index {target.active_index} now: {report.documents} documents with {report.chunks} "
        f"chunks. To undo: `gircse rollback {target.name}`."
    )
    for uri, reason in list(report.unreadable.items())[:MAX_LISTED]:
        typer.echo(f"  not searchable: {terminal.address(uri)}: {printable(reason)}", err=True)
    if len(report.unreadable) > MAX_LISTED:
        typer.echo(f"  not searchable: {len(report.unreadable) - MAX_LISTED} more", err=True)
