"""`gircse search`, and options that other commands share with it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, get_origin

import typer
from pydantic import TypeAdapter

from app.api.search_schemas import SearchAnswer
from app.commands import terminal
from app.commands.chosen_collection import SearchedCollection, chosen_collection
from app.commands.service import Local, find_service
from app.commands.wiring import open_services
from app.search.export import search_csv, search_markdown
from app.search.questions import request_of
from app.search.request_checks import check_request
from app.search.value_syntax import split_values
from app.settings import load_settings
from app.types.defaults import DEFAULT_COLLECTION
from app.types.options import Option, parameter, taking
from app.types.search import BOOST, SEARCH_OPTIONS, SUPPRESS, SearchResult, read_request


def _help_of(name: str) -> str | None:
    return SEARCH_OPTIONS[name].shown.command


# Options of the search that other commands have, too.
Instruction = Annotated[str | None, typer.Option("--instruction", "-i", help=_help_of("instruction"))]
Steps = Annotated[int | None, typer.Option(help=_help_of("steps"))]
Filters = Annotated[list[str], typer.Option("--filter", metavar="KEY=VALUE", help=_help_of("filters"))]
Values = Annotated[str | None, typer.Option(help=_help_of("values"))]
Boost = Annotated[list[str], typer.Option("--boost", metavar="WORD", help="More weight for WORD. Repeatable.")]
Suppress = Annotated[list[str], typer.Option("--suppress", metavar="WORD", help="Less weight for WORD. Repeatable.")]


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


RESULT = TypeAdapter(SearchResult)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, the same as the REST API answers.")]


Form = Annotated[
    Format | None,
    typer.Option("--format", help="text to read here; json, the same as the REST API answers; csv; markdown."),
]


# Options whose form on the command line differs from JSON.
_OWN: dict[str, dict[str, Any]] = {
    "filters": {"filters": (Filters, [])},
    "token_bias": {"boost": (Boost, []), "suppress": (Suppress, [])},
    "values": {"values": (Values, None)},
    "collection": {"collection": (SearchedCollection, None)},
}
_FIRST = ("query", "instruction", "lens", "collection", "steps", "mode")  # the others keep the order of the request


def search_parameters() -> Iterator[inspect.Parameter]:
    for name in dict.fromkeys((*_FIRST, *SEARCH_OPTIONS)):
        own = _OWN.get(name) or {name: (_annotation(SEARCH_OPTIONS[name]), _default(SEARCH_OPTIONS[name]))}
        yield from (parameter(each, *spelled) for each, spelled in own.items())


def _annotation(option: Option) -> Any:
    told = option.shown.command or option.description
    if option.is_required:
        return Annotated[option.type, typer.Argument(help=told)]
    kind = list[str] if get_origin(option.type) is list else option.type  # elements are checked with the request
    return Annotated[kind, typer.Option(*option.shown.flags, metavar=option.shown.metavar, help=told)]


def _default(option: Option) -> Any:
    return float(option.default) if option.type is float else option.default


@taking(search_parameters())
def search(
    *,
    form: Form = None,
    as_json: Annotated[bool, typer.Option("--json", help="As --format json.")] = False,
    local: Local = False,
    **options: Any,
) -> None:
    """Search a collection under an instruction.

    If a service with the same home is running, it performs the search; otherwise this command loads the model.

    Example: gircse search "my card has not come" -c sample -i "Identify the feeling that the message expresses"
    """
    written = read_options(options)
    form = chosen_form(form, as_json)
    settings = load_settings()
    service = find_service(settings, local=local)
    if service is not None:
        written["collection"] = chosen_collection(written["collection"], service)
        request = {name: value for name, value in written.items() if value is not None}
        result = RESULT.validate_json(service.post("/api/v1/search", request))
        print_result(result, form, written["filters"])
        return
    with open_services(settings, needs_model=True) as services:
        written["collection"] = chosen_collection(written["collection"], services.catalog)
        result = services.search.search(request_of(written, services.catalog))
        print_result(result, form, written["filters"])


def read_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of `search_parameters` in the form of the REST API, checked. `collection` is None if not given."""
    written = options | {
        "filters": parse_filters(options["filters"]),
        "token_bias": token_bias(options.pop("boost"), options.pop("suppress")),
        "values": None if options["values"] is None else split_values(options["values"]),
    }
    named = {"collection": written["collection"] or DEFAULT_COLLECTION}
    check_request(read_request(written | named, instruction=written["instruction"], values=()))
    return written


def chosen_form(form: Format | None, as_json: bool) -> Format | None:
    if as_json and form not in (None, Format.JSON):
        raise typer.BadParameter(f"--json is the format json, not {form}", param_hint="--format")
    return Format.JSON if as_json else form


def print_result(result: SearchResult, form: Format | None, filters: Mapping[str, str]) -> None:
    """`filters` are those of the request."""
    match form:
        case Format.JSON:
            typer.echo(terminal.json_of(SearchAnswer.model_validate(result)))
        case Format.CSV:
            typer.echo(search_csv(result).replace("\r\n", "\n"), nl=False)  # the system's own line ends
        case Format.MARKDOWN:
            typer.echo(search_markdown(result), nl=False)
        case _:
            terminal.print_search(result, filters)


def parse_filters(filters: list[str]) -> dict[str, str]:
    parsed = {}
    for text in filters:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--filter")
        parsed[key.strip()] = value
    return parsed


def token_bias(boost: list[str], suppress: list[str]) -> dict[str, float]:
    both = set(boost) & set(suppress)
    if both:
        raise typer.BadParameter(f"{sorted(both)[0]!r} is boosted and suppressed at once", param_hint="--suppress")
    return dict.fromkeys(boost, BOOST) | dict.fromkeys(suppress, SUPPRESS)
