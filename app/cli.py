"""The command `gircse`. Exit codes: 0 done, 1 error with one line on stderr, 2 wrong usage, 130 interrupted."""

from __future__ import annotations

import gc
import sys
from importlib.metadata import version
from types import TracebackType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app.commands import (
    access,
    archive,
    consistency,
    doctor,
    embedder,
    evaluate,
    ingest,
    judgements,
    lenses,
    manage,
    mcp,
    optimize,
    reindex,
    search,
    serve,
    train,
    watch,
)
from app.errors import GircseError, InputError
from app.runtime.logs import set_up_logging
from app.settings import load_log_settings
from app.types.documents import require_text

_NEW_OBJECTS = 50_000  # before the collector looks for cycles among them
SEARCHING, FILLING, SERVING, KEEPING = "Search", "Fill", "Serve", "Look after"


class _Group(TyperGroup):
    """Checks every argument on the way in and turns known errors into one line on the way out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for arg in args:
            try:
                require_text(arg, name="command line")
            except InputError as error:
                raise typer.BadParameter(str(error)) from None
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (GircseError, OSError) as error:
            if ctx.params.get("debug") or isinstance(error, BrokenPipeError):
                raise
            typer.echo(f"gircse: {error}", err=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Search that follows an instruction. Start with `gircse up --sample`, then open the page that it names.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gircse {version('gircse-search')}")
        raise typer.Exit


@app.callback()
def _main_options(
    debug: Annotated[bool, typer.Option("--debug", help="Log in detail; show tracebacks.")] = False,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    log = load_log_settings()
    set_up_logging(log.log_format, "DEBUG" if debug else log.log_level)
    if debug:
        sys.excepthook = sys.__excepthook__


app.command(rich_help_panel=SEARCHING)(search.search)
app.command(rich_help_panel=SEARCHING)(search.refine)
app.command(rich_help_panel=SEARCHING)(search.embed)
app.add_typer(lenses.lenses, name="lenses", rich_help_panel=SEARCHING)
app.add_typer(judgements.judgements, name="judgements", rich_help_panel=SEARCHING)
app.command(rich_help_panel=FILLING)(ingest.ingest)
app.command(rich_help_panel=FILLING)(watch.watch)
app.add_typer(manage.documents, name="documents", rich_help_panel=FILLING)
app.add_typer(manage.collections, name="collections", rich_help_panel=FILLING)
app.command(rich_help_panel=SERVING)(serve.up)
app.command(rich_help_panel=SERVING)(serve.serve)
app.command(rich_help_panel=SERVING)(serve.worker)
app.command(rich_help_panel=SERVING)(mcp.mcp)
app.command(rich_help_panel=SERVING)(embedder.embedder)
app.add_typer(manage.jobs, name="jobs", rich_help_panel=KEEPING)
app.add_typer(access.users, name="users", rich_help_panel=SERVING)
app.add_typer(access.keys, name="keys", rich_help_panel=SERVING)
app.command(rich_help_panel=SERVING)(access.audit)
app.command(rich_help_panel=KEEPING)(doctor.doctor)
app.command(rich_help_panel=KEEPING)(consistency.check)
app.command(rich_help_panel=KEEPING)(reindex.reindex)
app.command(rich_help_panel=KEEPING)(reindex.rollback)
app.command(rich_help_panel=KEEPING)(optimize.optimize)
app.command(rich_help_panel=KEEPING)(archive.export)
app.command("import", rich_help_panel=KEEPING)(archive.import_)
manage.collections.command("prune")(reindex.prune)
# These parse their own arguments, --help included.
_HANDED_OVER: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
app.command(rich_help_panel=KEEPING, context_settings=_HANDED_OVER)(train.train)
app.command("eval", rich_help_panel=KEEPING, context_settings=_HANDED_OVER)(evaluate.evaluate)


def _report_unexpected(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    sys.stderr.write(
        f"gircse: unexpected {kind.__name__}: {error}. `gircse --debug …` shows where; please report it.\n"
    )


def main() -> None:
    sys.excepthook = _report_unexpected
    # By default the collector looks through a million objects of freshly imported libraries again and again, and once
    # more at the end: 2 of the 8 seconds that starting and stopping `gircse up` would take.
    gc.set_threshold(_NEW_OBJECTS, 20, 100)
    try:
        app()
    finally:
        gc.freeze()
