"""`gircse saved` and `gircse history`: the operator's saved searches, standing searches and search history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import TypeAdapter

from app.api.search_schemas import PastSearchAnswer, SavedSearchAnswer, SearchQuestion
from app.api.standing import NewsAnswer, StandingAnswer, standing_answer
from app.collections.own_searches import RecordedSearches
from app.collections.own_standing import OwnStanding
from app.commands import terminal
from app.commands.chosen_collection import chosen_collection
from app.commands.search import RESULT, AsJson, Form, chosen_form, print_result, read_options, search_parameters
from app.commands.service import Local, find_service
from app.commands.wiring import open_catalog, open_services, wiring
from app.ports.parts import VectorIndex
from app.search.questions import request_of
from app.settings import load_settings
from app.types.access import OPERATOR
from app.types.options import taking
from app.types.search import ALL_COLLECTIONS
from app.types.standing import StandingSearch, Strength, Watch

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

saved = typer.Typer(no_args_is_help=True, help="Save, list, run, rename, watch and delete searches.")
history = typer.Typer(no_args_is_help=True, help="List and clear the history of searches on the web pages.")

_NEWS: TypeAdapter[list[NewsAnswer]] = TypeAdapter(list[NewsAnswer])
_SHOWN = 200  # characters of a passage

Name = Annotated[str, typer.Argument(help="Name or id of the search.", show_default=False)]


@saved.command("list")
def list_saved(as_json: terminal.JsonLines = False) -> None:
    """List the operator's saved searches. With access control, users see their own on the page Saved."""
    with _opened() as searches:
        found = searches.saved()
    if as_json:
        terminal.print_json_lines(SavedSearchAnswer.model_validate(each) for each in found)
        return
    rows = [(each.name, *_described(each.request), f"{each.created_at:%Y-%m-%d %H:%M}") for each in found]
    terminal.print_table(("name", "query", "collection", "instruction", "saved"), rows)


@saved.command("add")
@taking(search_parameters())
def add_saved(
    name: Annotated[str, typer.Argument(help="Name of the search.", show_default=False)], **options: Any
) -> None:
    """Save a search under a name. Replaces a saved search of the same name.

    Example: gircse saved add "Late cards" "my card has not come" -c letters -i "Identify the problem"
    """
    written = {option: value for option, value in read_options(options).items() if value is not None}
    with open_catalog() as catalog:
        written["collection"] = chosen_collection(written.get("collection"), catalog)
        if written["collection"] != ALL_COLLECTIONS:
            catalog.collection(written["collection"])
        request_of(written, catalog)  # raises for a lens that does not exist
        question = SearchQuestion.model_validate(written).model_dump(mode="json", exclude_defaults=True)
        kept = question | {"collection": written["collection"]}  # also if it is the default one
        searches = _searches_of(catalog)
        is_new = name not in {each.name for each in searches.saved()}
        found = searches.save(name, kept)
    did = "Saved" if is_new else "Replaced the saved search"
    typer.echo(f"{did} {found.name!r}. Run it with `gircse saved run`; `gircse saved watch` reports new matches.")


@saved.command("run")
def run_saved(name: Name, form: Form = None, as_json: AsJson = False, local: Local = False) -> None:
    """Run a saved search.

    Example: gircse saved run "Late cards" --format csv
    """
    with _opened() as searches:
        request = searches.find(name).request
    filters = request.get("filters", {})
    form, settings = chosen_form(form, as_json), load_settings()
    service = find_service(settings, local=local)
    if service is not None:
        print_result(RESULT.validate_json(service.post("/api/v1/search", request)), form, filters)
        return
    question = SearchQuestion.model_validate(request)
    with open_services(settings) as services:
        found = services.search.search(request_of(dict(question), services.catalog))
        print_result(found, form, filters)


@saved.command("rename")
def rename_saved(
    name: Name, new_name: Annotated[str, typer.Argument(help="New name of the search.", show_default=False)]
) -> None:
    """Rename a saved search. Its alert and the matches found so far are kept.

    Example: gircse saved rename "Late cards" "Cards that are late"
    """
    with _opened() as searches:
        before = searches.find(name)
        found = searches.rename(before.id, new_name)
    typer.echo(f"Renamed the saved search {before.name!r} to {found.name!r}.")


@saved.command("delete")
def delete_saved(name: Name) -> None:
    """Delete a saved search."""
    with _opened() as searches:
        found = searches.find(name)
        searches.delete(found.id)
    typer.echo(f"Deleted the saved search {found.name!r}.")


@saved.command("watch")
def watch_saved(
    name: Name,
    strength: Annotated[Strength, typer.Option(help="Minimum match of reported passages.")] = Strength.FAIR,
    webhook: Annotated[
        str | None, typer.Option(help="URL to which each match is posted, signed.", show_default=False)
    ] = None,
    alert: Annotated[
        str | None, typer.Option(help="Name of a target in GIRCSE_ALERTS_FILE.", show_default=False)
    ] = None,
    as_json: terminal.JsonLines = False,
) -> None:
    """Make a saved search a standing search, which reports every matching new passage of its collection.

    Example: gircse saved watch "Late cards" --strength strong
    """
    with _standing() as standing:
        found = standing.watch(name, Watch(strength, webhook, alert))
        (answer,) = _answers(standing, [found])
    if as_json:
        terminal.print_json_lines([answer])
        return
    typer.echo(f"{found.name!r} now watches {found.collection!r}. `gircse saved news` lists its matches.")
    typer.echo(f"Its feed is at {answer.feed}" + ("" if answer.feed.startswith("http") else " of the service."))
    if found.watch.webhook:
        typer.echo(f"Messages to the webhook are signed with {found.webhook_secret}")


@saved.command("unwatch")
def unwatch_saved(name: Name) -> None:
    """Stop a standing search and delete its matches. The saved search is kept."""
    with _standing() as standing:
        standing.unwatch(name)
    typer.echo(f"{name!r} is no longer a standing search.")


@saved.command("news")
def news_of_saved(
    name: Annotated[str | None, typer.Argument(help="Name or id of the search.", show_default=False)] = None,
    all_of_it: Annotated[bool, typer.Option("--all", help="Also matches marked as seen.")] = False,
    seen: Annotated[bool, typer.Option("--seen", help="Mark the listed matches as seen.")] = False,
    as_json: terminal.JsonLines = False,
) -> None:
    """List the matches of a standing search that are not marked as seen. Without a name: the number for each search.

    Example: gircse saved news "Late cards" --seen
    """
    if name is None:
        with _standing() as standing:
            own = standing.standing()
            if as_json:
                terminal.print_json_lines(_answers(standing, own))
                return
        counted = [
            (each.name, each.collection, each.watch.strength.value, each.unseen, each.error or "") for each in own
        ]
        terminal.print_table(("name", "collection", "strength", "new", "error"), counted)
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
        terminal.print_json_lines(found)
        return
    rows = [(f"{each.matched_at:%Y-%m-%d %H:%M}", each.match.value, each.title, each.text[:_SHOWN]) for each in found]
    terminal.print_table(("found", "match", "title", "passage"), rows)


@history.command("list")
def list_history(as_json: terminal.JsonLines = False) -> None:
    """List searches on the web pages, newest first. GIRCSE_SEARCH_HISTORY=0 turns the history off."""
    with _opened() as searches:
        found = searches.history()
    if as_json:
        terminal.print_json_lines(PastSearchAnswer.model_validate(each) for each in found)
        return
    rows = [(*_described(each.request), f"{each.asked_at:%Y-%m-%d %H:%M}") for each in found]
    terminal.print_table(("query", "collection", "instruction", "searched"), rows)


@history.command("clear")
def clear_history() -> None:
    """Delete the whole history."""
    with _opened() as searches:
        typer.echo(f"Deleted {searches.forget()} searches.")


@contextmanager
def _opened() -> Iterator[RecordedSearches]:
    with open_catalog() as catalog:
        yield _searches_of(catalog)


def _searches_of(catalog: SqlCatalog) -> RecordedSearches:
    limit = load_settings().search_history
    return RecordedSearches(catalog.searches, owner=lambda: OPERATOR.name, history_limit=limit)


def _id_of(name: str) -> str:
    with _standing() as standing:
        return standing.find(name).id


@contextmanager
def _standing() -> Iterator[OwnStanding]:
    with open_catalog() as catalog, _standing_over(catalog, None) as standing:
        yield standing


@contextmanager
def _standing_over(catalog: SqlCatalog, index: VectorIndex | None) -> Iterator[OwnStanding]:
    """The operator's standing searches. The operator may read every collection."""
    alerts = wiring("alerts").alert_targets(load_settings())

    def require_access(collection: str) -> None:
        catalog.collection(collection)

    yield OwnStanding(catalog, index, owner=lambda: OPERATOR.name, require_access=require_access, alerts=alerts)


def _answers(standing: OwnStanding, searches: Sequence[StandingSearch]) -> list[StandingAnswer]:
    """As the REST API answers; without GIRCSE_PUBLIC_URL, feeds have a path alone."""
    failures, base = standing.failures(searches), load_settings().public_url or ""
    return [standing_answer(each, base, failures.get(each.id, {})) for each in searches]


def _described(request: Mapping[str, Any]) -> tuple[object, ...]:
    return request["query"], request["collection"], request.get("lens") or request.get("instruction") or ""
