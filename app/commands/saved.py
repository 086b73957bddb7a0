"""`gircse saved` and `gircse history`: searches that were saved, and asked on the pages, by this machine's operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from app.api.search_schemas import PastSearchAnswer, SavedSearchAnswer, SearchQuestion
from app.commands import console
from app.commands.composition import open_catalog, open_services
from app.commands.search import RESULT, AsJson, Form, chosen_form, print_result
from app.commands.service import Local, find_service
from app.search.lenses import look_through
from app.search.own_searches import OwnSearches
from app.settings import load_settings
from app.types.access import OPERATOR

saved = typer.Typer(no_args_is_help=True, help="List, run and delete saved searches.")
history = typer.Typer(no_args_is_help=True, help="List and clear what was searched for on the pages.")

Name = Annotated[str, typer.Argument(help="Name or id of the search.", show_default=False)]


@saved.command("list")
def list_saved(as_json: console.JsonLines = False) -> None:
    """List saved searches. Where users log in, each sees their own on the page Saved."""
    with _opened() as searches:
        found = searches.saved()
    if as_json:
        console.print_json_lines(SavedSearchAnswer.model_validate(each) for each in found)
        return
    rows = [(each.name, *_described(each.request), f"{each.created_at:%Y-%m-%d %H:%M}") for each in found]
    console.print_table(("name", "query", "collection", "instruction", "saved"), rows)


@saved.command("run")
def run_saved(name: Name, form: Form = None, as_json: AsJson = False, local: Local = False) -> None:
    """Ask a saved search again.

    Example: gircse saved run "Late cards" --format csv
    """
    with _opened() as searches:
        request = searches.find(name).request
    form, settings = chosen_form(form, as_json), load_settings()
    service = find_service(settings, local=local)
    if service is not None:
        print_result(RESULT.validate_json(service.post("/api/v1/search", request)), form)
        return
    question = SearchQuestion.model_validate(request)
    with open_services(settings) as services:
        seen = look_through(services.catalog, question.lens, question.instruction, question.values)
        print_result(services.search.search(question.as_request(*seen)), form)


@saved.command("delete")
def delete_saved(name: Name) -> None:
    """Delete a saved search."""
    with _opened() as searches:
        found = searches.find(name)
        searches.delete(found.id)
    typer.echo(f"The saved search {found.name!r} is deleted.")


@history.command("list")
def list_history(as_json: console.JsonLines = False) -> None:
    """List what was searched for on the pages, the newest first. GIRCSE_SEARCH_HISTORY=0 keeps none."""
    with _opened() as searches:
        found = searches.history()
    if as_json:
        console.print_json_lines(PastSearchAnswer.model_validate(each) for each in found)
        return
    rows = [(*_described(each.request), f"{each.asked_at:%Y-%m-%d %H:%M}") for each in found]
    console.print_table(("query", "collection", "instruction", "asked"), rows)


@history.command("clear")
def clear_history() -> None:
    """Forget all of it."""
    with _opened() as searches:
        typer.echo(f"{searches.forget()} searches are forgotten.")


@contextmanager
def _opened() -> Iterator[OwnSearches]:
    with open_catalog() as catalog:
        limit = load_settings().search_history
        yield OwnSearches(catalog, owner=lambda: OPERATOR.name, history_limit=limit)


def _described(request: Mapping[str, Any]) -> tuple[object, ...]:
    return request["query"], request["collection"], request.get("lens") or request.get("instruction") or ""
