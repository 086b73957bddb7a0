"""The command `gircse`.

Exit codes: 0 done, 1 error with one line on stderr, 2 wrong usage, 130 interrupted, 141 the reader of the output left
(`| head`), 143 ended by SIGTERM.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import FrameType, TracebackType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from app.commands.suggestions import SuggestingGroup, drop_hidden_options
from app.errors import GircseError, InputError
from app.types.documents import require_text
from embedder.command.standard_output import set_up_streams

_TERMINATED = 128 + signal.SIGTERM  # exit code
_AGAIN_S = 0.01  # until a signal is tried again
_NEW_OBJECTS = 50_000  # allocations before a garbage collection
SEARCHING, FILLING, SERVING, KEEPING = "Search", "Fill", "Serve", "Look after"


@dataclass(frozen=True, slots=True)
class _Command:
    """`place`: a function or command group in app.commands. `help` must equal the first paragraph of its own help.
    `interrupted`: what Ctrl-C or SIGTERM leaves, and how to go on."""

    place: str
    panel: str
    help: str
    interrupted: str = ""
    hands_over: bool = False  # parses its own arguments, --help included


# Importing all commands takes a second, so each is imported only when used.
COMMANDS: Mapping[str, _Command] = {
    "search": _Command("search:search", SEARCHING, "Search a collection under an instruction."),
    "answer": _Command(
        "answer:answer",
        SEARCHING,
        "Answer a question with sentences that cite passages, or report that no passage answers it.",
    ),
    "saved": _Command("saved:saved", SEARCHING, "Save, list, run, rename, watch and delete searches."),
    "history": _Command("saved:history", SEARCHING, "List and clear the history of searches on the web pages."),
    "refine": _Command(
        "refine:refine",
        SEARCHING,
        "Show the tokens that the model predicts in each refinement step while it embeds a query.",
    ),
    "embed": _Command("refine:embed", SEARCHING, "Print the vector of each text, one JSON array per line."),
    "ingest": _Command(
        "ingest:ingest",
        FILLING,
        "Add files, folders, rows and web pages to a collection. Unchanged documents are skipped.",
        "What was added stays queued. Run the command again, or `gircse up`, to ingest the rest.",
    ),
    "sources": _Command(
        "sources:sources",
        FILLING,
        "Pages, feeds, sitemaps, repositories, mailboxes and buckets that are synced on a schedule.",
    ),
    "watch": _Command(
        "watch:watch",
        FILLING,
        "Keep a collection in sync with folders until stopped: additions, edits, moves and deletions. Ctrl-C stops it.",
        "What was queued stays queued. The next `gircse watch` finds what has changed meanwhile.",
    ),
    "up": _Command(
        "serve:up",
        SERVING,
        "Run everything in one process: index, worker, API and web page. Ctrl-C stops it.",
        "Queued documents are ingested after the next start.",
    ),
    "serve": _Command(
        "serve:serve",
        SERVING,
        "Run the API and the web page without a worker. Ingestion needs a separate `gircse worker`.",
    ),
    "worker": _Command(
        "serve:worker",
        SERVING,
        "Run queued ingestion jobs until stopped. Ctrl-C stops after the current step; nothing is lost.",
        "Queued documents are ingested after the next start.",
    ),
    "mcp": _Command(
        "mcp:mcp",
        SERVING,
        "Run an MCP server for agents: they can search and read, but change nothing. Agents start it and use its "
        "stdio.",
    ),
    "embedder": _Command(
        "embedder:embedder",
        SERVING,
        "Run an embedding server with OpenAI's /v1/embeddings. Other processes use it through GIRCSE_EMBEDDER_URL. "
        "Ctrl-C stops it.",
    ),
    "audit": _Command("access:audit", SERVING, "Show the audit log: logins, changes to keys and users, deletions."),
    "doctor": _Command(
        "doctor:doctor",
        KEEPING,
        "Check that every component works and stored data is undamaged: versions, device, disk, permissions, catalog, "
        "clock, jobs, index, files, sign-in, embedding server, model and its golden vectors, fingerprints of "
        "collections.",
        "With --rebuild: finished repairs stay, and the same command goes on.",
    ),
    "check": _Command(
        "consistency:check",
        KEEPING,
        "Compare the catalog with the vectors and the stored files, in both directions.",
        "Repairs that were made stay. Run the command again to go on.",
    ),
    "reindex": _Command(
        "reindex:reindex",
        KEEPING,
        "Build a new index for a collection. The present index serves searches until the new one is complete.",
        "Searches use the present index. Run the command again to resume.",
    ),
    "rollback": _Command(
        "reindex:rollback",
        KEEPING,
        "Switch back to the index before the last reindex; run again, it switches forward. Documents that changed "
        "since then are queued for ingestion.",
    ),
    "optimize": _Command(
        "optimize:optimize",
        KEEPING,
        "Merge the segments of a collection's index and drop deleted points. Searches continue.",
    ),
    "backup": _Command(
        "backup:backup",
        KEEPING,
        "Back up the installation to one file while it runs: catalog, files, texts, and settings without secrets.",
        "No backup was written. Run the command again.",
    ),
    "restore": _Command(
        "backup:restore",
        KEEPING,
        "Restore an installation from a backup, here or on an empty machine. The whole backup is verified first.",
        "If the catalog was restored, `gircse doctor --rebuild` goes on; otherwise run the command again.",
    ),
    "export": _Command(
        "archive:export",
        KEEPING,
        "Export a collection to one file: documents, texts, chunks, vectors, lenses, judgements and model contract.",
        "No archive was written. Run the command again.",
    ),
    "import": _Command(
        "archive:import_",
        KEEPING,
        "Import a collection that was exported here or on another machine. The whole archive is verified first.",
        "The collection was not imported. Run the command again.",
    ),
    "train": _Command(
        "train:train",
        KEEPING,
        "Train an adapter. All arguments are passed to embedder.training (needs the extra `train`).",
        "The last checkpoint stays. Run the command again to go on.",
        hands_over=True,
    ),
    "eval": _Command(
        "evaluate:evaluate",
        KEEPING,
        "Evaluate a model. All arguments are passed to embedder.evaluation (needs the extra `eval`).",
        "Finished tasks stay in the file of --out. Run the command again for the rest.",
        hands_over=True,
    ),
    "lenses": _Command("lenses:lenses", SEARCHING, "List, save and delete lenses: instructions under a name."),
    "judgements": _Command(
        "judgements:judgements",
        SEARCHING,
        "Import relevance judgements, and evaluate search with them.",
    ),
    "documents": _Command("documents:documents", FILLING, "List, show, delete, restore and move documents."),
    "collections": _Command("collections:collections", FILLING, "List, show, create and delete collections."),
    "jobs": _Command("jobs:jobs", KEEPING, "List, retry, cancel and pause ingestion jobs."),
    "users": _Command("access:users", SERVING, "List, add, change and delete users."),
    "keys": _Command("access:keys", SERVING, "Create, list and revoke API keys."),
    "sessions": _Command("sessions:sessions", SERVING, "List and end login sessions of users."),
}


class _Commands(Mapping[str, Any]):
    """The commands of `COMMANDS`, imported on access."""

    def __getitem__(self, name: str) -> Any:
        module, _, attribute = COMMANDS[name].place.partition(":")
        command = getattr(import_module(f"app.commands.{module}"), attribute)
        holder = typer.Typer(add_completion=False, rich_markup_mode="rich")
        if isinstance(command, typer.Typer):
            holder.add_typer(command, name=name, cls=SuggestingGroup, rich_help_panel=COMMANDS[name].panel)
            return typer.main.get_command(holder).commands[name]  # type: ignore[attr-defined]
        own: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
        settings = own if COMMANDS[name].hands_over else None
        holder.command(name, rich_help_panel=COMMANDS[name].panel, context_settings=settings)(command)
        return typer.main.get_command(holder)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Group(TyperGroup):
    """Rejects unusable arguments and reports known errors in one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands()  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Lists commands from `COMMANDS`, without importing them."""
        listed = [
            TyperCommand(name, help=command.help, rich_help_panel=command.panel) for name, command in COMMANDS.items()
        ]
        shown = TyperGroup(
            name=self.name, commands=listed, help=self.help, params=self.params, rich_markup_mode=self.rich_markup_mode
        )
        shown.format_help(ctx, formatter)

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
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # of pydantic
            raise
        except (GircseError, OSError) as error:
            if ctx.params.get("debug"):
                raise
            typer.echo(f"gircse: {error}", err=True)
            raise typer.Exit(1) from error
        except (KeyboardInterrupt, SystemExit) as stop:
            if (isinstance(stop, KeyboardInterrupt) or stop.code == _TERMINATED) and ctx.invoked_subcommand in COMMANDS:
                _report_interruption(COMMANDS[ctx.invoked_subcommand].interrupted)
            raise
        except Exception as error:
            drop_hidden_options(error)
            raise


def _report_interruption(what_remains: str) -> None:
    if what_remains:
        typer.echo(f"\ngircse: interrupted. {what_remains}", err=True)


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
        typer.echo(f"gircse {import_module('importlib.metadata').version('gircse-search')}")
        raise typer.Exit


@app.callback()
def _main_options(
    debug: Annotated[bool, typer.Option("--debug", help="Log in detail; show tracebacks.")] = False,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    log = import_module("app.settings").load_log_settings()
    import_module("app.runtime.logs").set_up_logging(log.log_format, "DEBUG" if debug else log.log_level)
    if debug:
        sys.excepthook = sys.__excepthook__


def _report_unexpected(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    sys.stderr.write(
        f"gircse: unexpected {kind.__name__}: {error}. `gircse --debug …` shows the traceback; please report it.\n"
    )


def _must_not_raise(frame: FrameType | None) -> bool:
    if frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        return True
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def end_at_signal(number: int, frame: FrameType | None) -> None:
    """Leaves every `with` block: by default SIGTERM would leave temporary files and child processes.

    Not within importlib, where an exception can leave a lock taken, so that the process hangs; nor within `__del__`,
    where Python ignores exceptions.
    """
    if _must_not_raise(frame):
        threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number)).start()
        return
    if number == signal.SIGTERM:
        sys.exit(_TERMINATED)
    raise KeyboardInterrupt


def main() -> None:
    set_up_streams("gircse")
    sys.excepthook = _report_unexpected
    signal.signal(signal.SIGTERM, end_at_signal)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise it is ignored, as under nohup
        signal.signal(signal.SIGINT, end_at_signal)
    # By default, garbage collection scans a million objects of freshly imported libraries repeatedly, and once more at
    # exit: 2 of the 8 seconds to start and stop `gircse up`.
    gc.set_threshold(_NEW_OBJECTS, 20, 100)
    # NumPy's matrix products are small here: with more threads, OpenBLAS busy-waits on a whole core and lens indexes
    # build no faster. NumPy reads this variable on import; torch has its own threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        app(prog_name="gircse")
    finally:
        sys.stdout.flush()
        gc.freeze()
