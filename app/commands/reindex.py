"""`gircse reindex` and `rollback`: another model, instruction or splitter for a collection, and back again."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.collections.reindex import ReindexReport
from app.commands import console
from app.commands.composition import open_services, wiring
from app.errors import ConflictError
from app.settings import load_settings
from app.types.documents import Collection
from app.types.upkeep import ContractChange

MAX_TOLD = 50


def reindex(
    collection: Annotated[str, typer.Argument(help="What to index anew.")],
    model: Annotated[str | None, typer.Option(help="Instead of GIRCSE_MODEL.")] = None,
    document_instruction: Annotated[str | None, typer.Option(help="For embedding documents; '': none.")] = None,
    document_steps: Annotated[int | None, typer.Option(help="Refinement steps of documents.")] = None,
    chunk_tokens: Annotated[int | None, typer.Option(help="Longest chunk, in tokens of the model.")] = None,
    chunk_overlap: Annotated[int | None, typer.Option(help="Tokens that a chunk shares with the one before.")] = None,
    chunk_context: Annotated[
        bool | None, typer.Option(help="Embed chunks with the title and headings above them.")
    ] = None,
    chunk_structure: Annotated[
        bool | None, typer.Option(help="Have chunks keep to sections, complete pages and rows.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Drop what an earlier run has built.")] = False,
) -> None:
    """Index a collection anew beside the live index, which answers until the switch. Run again, it goes on.

    Example: gircse reindex reading --chunk-tokens 120 --chunk-overlap 20
    """
    change = ContractChange(
        document_instruction, document_steps, chunk_tokens, chunk_overlap, chunk_context, chunk_structure
    )
    with (
        open_services(load_settings(model=model)) as services,
        wiring("ingestion").open_reindexer(services) as reindexer,
    ):
        target = reindexer.begin(collection, change, restart=restart)
        columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console.stderr) as progress:
            bar = progress.add_task("indexing", total=None)
            report = reindexer.build(target, tell=lambda done, total: progress.update(bar, completed=done, total=total))
    _print_summary(target, report)
    if model is not None:
        typer.echo(
            f"Restart every server and worker with this model, `gircse up --model {model}` or GIRCSE_MODEL: until then "
            f"they refuse {collection!r}."
        )


def rollback(collection: Annotated[str, typer.Argument(help="What to take back.")]) -> None:
    """Go back to the index before the last reindex; doing it again returns. What changed since is queued.

    Example: gircse rollback reading
    """
    with open_services() as services, wiring("ingestion").open_reindexer(services) as reindexer:
        now = reindexer.roll_back(collection)
    typer.echo(f"{now.name!r} is searched in {now.active_index} again (model fingerprint {now.fingerprint[:12]}).")


def prune(collection: Annotated[str, typer.Argument(help="Whose index to drop.")]) -> None:
    """Drop the index that is kept for `gircse rollback`.

    Example: gircse collections prune reading
    """
    with open_services() as services, wiring("ingestion").open_reindexer(services) as reindexer:
        dropped = reindexer.prune(collection)
    if dropped is None:
        raise ConflictError(f"The collection {collection!r} keeps no previous index.")
    typer.echo(f"{dropped} is dropped.")


def _print_summary(target: Collection, report: ReindexReport) -> None:
    typer.echo(
        f"{target.name!r} is searched in {target.active_index} now: {report.documents} documents with {report.chunks} "
        f"chunks. `gircse rollback {target.name}` goes back."
    )
    for uri, reason in list(report.unreadable.items())[:MAX_TOLD]:
        typer.echo(f"  not searchable: {console.printable(uri)}: {console.printable(reason)}", err=True)
    if len(report.unreadable) > MAX_TOLD:
        typer.echo(f"  not searchable: {len(report.unreadable) - MAX_TOLD} more", err=True)
