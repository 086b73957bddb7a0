"""The collection of a command that names none: the only one, else the default one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands.service import RunningService
from app.errors import InputError
from app.types.defaults import DEFAULT_COLLECTION, SAMPLE_COLLECTION

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

_DEFAULT = f"Default: the only one, else {DEFAULT_COLLECTION!r}."

InCollection = Annotated[
    str | None, typer.Option("--collection", "-c", help=f"Collection. {_DEFAULT}", show_default=False)
]
SearchedCollection = Annotated[
    str | None,
    typer.Option("--collection", "-c", help=f"Collection to search; '*': all. {_DEFAULT}", show_default=False),
]
TargetCollection = Annotated[
    str | None,
    typer.Option(
        "--collection",
        "-c",
        help=f"Target collection; created if missing. {_DEFAULT} Never the sample library unless named.",
        show_default=False,
    ),
]
OnlyCollection = Annotated[str | None, typer.Argument(help="Default: the only collection.", show_default=False)]


def chosen_collection(given: str | None, known: SqlCatalog | RunningService) -> str:
    """Raises InputError if several collections exist and none of them has the default name."""
    if given is not None:
        return given
    names = _names(known)
    if len(names) == 1:
        return names[0]
    if names and DEFAULT_COLLECTION not in names:
        raise InputError(f"There are several collections: {', '.join(names)}. Name one with --collection NAME.")
    return DEFAULT_COLLECTION


def target_collection(given: str | None, catalog: SqlCatalog) -> str:
    """The collection to add new documents to. Reports the choice on stderr unless it is the default collection."""
    if given is not None:
        return given
    own = [name for name in _names(catalog) if name != SAMPLE_COLLECTION]
    if len(own) != 1 or own[0] == DEFAULT_COLLECTION:
        return DEFAULT_COLLECTION
    typer.echo(f"Target: {own[0]}, the only collection. Name another with --collection NAME.", err=True)
    return own[0]


def only_collection(given: str | None, catalog: SqlCatalog) -> str:
    """Raises InputError unless exactly one collection exists or one was given."""
    if given is not None:
        return given
    names = _names(catalog)
    if len(names) != 1:
        there = f"There are several: {', '.join(names)}" if names else "There are none yet"
        raise InputError(f"Name a collection. {there}.")
    return names[0]


def _names(known: SqlCatalog | RunningService) -> Sequence[str]:
    if isinstance(known, RunningService):
        return known.collection_names()
    return [each.name for each in known.uncounted_collections()]
