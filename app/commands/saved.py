"""`gircse saved` and `gircse history`: searches that were saved, and asked on the pages, by this machine's operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter

from app.api.search_schemas import PastSearchAnswer, SavedSearchAnswer, SearchQuestion
from app.api.standing import NewsAnswer
from app.collections.own_standing import OwnStanding
from app.commands import console
from app.commands.composition import open_catalog, open_services, wiring
from app.commands.search import RESULT, AsJson, Form, chosen_form, print_result
from app.commands.service import Local, find_service
from app.ports.ledger import Ledger
from app.ports.parts import VectorIndex
from app.search.own_searches import OwnSearches
from app.search.questions import request_of
from app.settings import load_settings
from app.types.access import OPERATOR
from app.types.standing import Strength, Watch

saved = typer.Typer(no_args_is_help=True, help="List, run, watch and delete saved searches.")
history = typer.Typer(no_args_is_help=True, help="List and clear what was searched for on the pages.")

_NEWS: TypeAdapter[list[NewsAnswer]] = TypeAdapter(list[NewsAnswer])
_SHOWN = 200  # characters of a passage

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
        print_result(services.search.search(request_of(dict(question), services.catalog)), form)


@saved.command("delete")
def delete_saved(name: Name) -> None:
    """Delete a saved search."""
    with _opened() as searches:
        found = searches.find(name)
        searches.delete(found.id)
    typer.echo(f"The saved search {found.name!r} is deleted.")


@saved.command("watch")
def watch_saved(
    name: Name,
    strength: Annotated[Strength, typer.Option(help="How well a passage has to answer.")] = Strength.FAIR,
    webhook: Annotated[str | None, typer.Option(help="Where each find is posted, signed.", show_default=False)] = None,
    alert: Annotated[str | None, typer.Option(help="A target of GIRCSE_ALERTS_FILE.", show_default=False)] = None,
) -> None:
    """Let a saved search keep watch: every new passage of its collection is asked about.

    Example: gircse saved watch "Late cards" --strength strong
    """
    with _standing() as standing:
        found = standing.watch(name, Watch(strength, webhook, alert))
    typer.echo(f"{found.name!r} keeps watch over {found.collection!r}. `gircse saved news` tells what it finds.")
    typer.echo(f"Its feed is at /feeds/{found.feed_token}.atom of the service.")
    if found.watch.webhook:
        typer.echo(f"What is sent to the webhook is signed with {found.webhook_secret}")


@saved.command("unwatch")
def unwatch_saved(name: Name) -> None:
    """Let a saved search keep watch no more; what it found is forgotten."""
    with _standing() as standing:
        standing.unwatch(name)
    typer.echo(f"{name!r} keeps watch no more.")


@saved.command("news")
def news_of_saved(
    name: Annotated[str | None, typer.Argument(help="Name or id of the search.", show_default=False)] = None,
    all_of_it: Annotated[bool, typer.Option("--all", help="Also what was marked as seen.")] = False,
    seen: Annotated[bool, typer.Option("--seen", help="Mark it as seen.")] = False,
    as_json: console.JsonLines = False,
) -> None:
    """Tell what standing searches found since it was last marked as seen. Without a name: how much each has.

    Example: gircse saved news "Late cards" --seen
    """
    if name is None:
        with _standing() as standing:
            own = standing.standing()
        counted = [
            (each.name, each.collection, each.watch.strength.value, each.unseen, each.error or "") for each in own
        ]
        console.print_table(("name", "collection", "strength", "new", "cannot be asked"), counted)
        return
    settings = load_settings()
    service = find_service(settings)
    if service is not None:
        found_id = _id_of(name)
        path = f"/api/v1/saved-searches/{found_id}/news"
        found = _NEWS.validate_json(service.get(f"{path}?limit=500&unseen={str(not all_of_it).lower()}"))
        if seen:
            service.post(f"{path}/seen", {"chunk_ids": [each.chunk_id for each in found]})
    else:
        with open_services(settings) as services, _standing_over(services.catalog, services.index) as standing:
            news = standing.news(name, unseen_only=not all_of_it, limit=500)
            found = [NewsAnswer.model_validate(each) for each in news]
            if seen:
                standing.mark_seen(name, [each.chunk_id for each in found])
    if as_json:
        console.print_json_lines(found)
        return
    rows = [(f"{each.matched_at:%Y-%m-%d %H:%M}", each.match.value, each.title, each.text[:_SHOWN]) for each in found]
    console.print_table(("found", "match", "title", "passage"), rows)


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


def _id_of(name: str) -> str:
    with _standing() as standing:
        return standing.find(name).id


@contextmanager
def _standing() -> Iterator[OwnStanding]:
    with open_catalog() as catalog, _standing_over(catalog, None) as standing:
        yield standing


@contextmanager
def _standing_over(catalog: Ledger, index: VectorIndex | None) -> Iterator[OwnStanding]:
    """The operator's, who may read everything."""
    alerts = wiring("alerts").alert_targets(load_settings())

    def require_access(collection: str) -> None:
        catalog.collection(collection)

    yield OwnStanding(catalog, index, owner=lambda: OPERATOR.name, require_access=require_access, alerts=alerts)


def _described(request: Mapping[str, Any]) -> tuple[object, ...]:
    return request["query"], request["collection"], request.get("lens") or request.get("instruction") or ""
