"""`gircse search`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Annotated

import typer
from pydantic import TypeAdapter

from app.api.search_schemas import SearchAnswer
from app.commands import console
from app.commands.composition import open_services
from app.commands.service import Local, RunningService, find_service
from app.search.export import search_csv, search_markdown
from app.search.lenses import look_through
from app.search.request_checks import check_request
from app.search.value_syntax import split_values
from app.settings import Settings, load_settings
from app.types.defaults import DEFAULT_COLLECTION
from app.types.search import BOOST, DEFAULT_MODE, SUPPRESS, SearchMode, SearchRequest, SearchResult

Instruction = Annotated[
    str | None,
    typer.Option("--instruction", "-i", help="How to look at the text. Left out: the model's own; '': none."),
]
Steps = Annotated[int | None, typer.Option(help="Refinement steps. Left out: the model's own.")]
Boost = Annotated[list[str], typer.Option("--boost", metavar="WORD", help="More weight for WORD. Repeatable.")]
Suppress = Annotated[list[str], typer.Option("--suppress", metavar="WORD", help="Less weight for WORD. Repeatable.")]
Values = Annotated[
    str | None,
    typer.Option(help="Values that the instruction tells apart: 'a, b, c' or 'a = synonym, synonym; b; c'. '': none."),
]


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


RESULT = TypeAdapter(SearchResult)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, the same as the REST API answers.")]


Rerank = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Look at the first N candidates again, under the instruction. 0: none. Left out: 20."
    ),
]
PerDocument = Annotated[
    int | None, typer.Option(metavar="N", help="At most N passages of one document. Left out: any number.")
]
Mode = Annotated[
    SearchMode, typer.Option(help="By the vector of the query (dense), by its words (sparse), or by both.")
]
Filters = Annotated[
    list[str], typer.Option("--filter", metavar="KEY=VALUE", help="Only documents with this metadata. Repeatable.")
]
Exclude = Annotated[list[str], typer.Option(metavar="PHRASE", help="Passages about PHRASE rank lower. Repeatable.")]
DetectNegation = Annotated[bool, typer.Option(help="Read “jazz, not about New York” as jazz, excluding New York.")]
PreferProse = Annotated[
    bool, typer.Option(help="Tables of numbers and references count less, unless the query asks for such.")
]
FoldDuplicates = Annotated[bool, typer.Option(help="Show near-identical passages with the best of them.")]
Diversity = Annotated[float, typer.Option(metavar="0..1", help="0: by relevance alone, to 1: unlike what ranks above.")]
Form = Annotated[
    Format | None,
    typer.Option("--format", help="text to read here; json, the same as the REST API answers; csv; markdown."),
]


def search(
    query: Annotated[str, typer.Argument(help="What you are looking for.")],
    instruction: Instruction = None,
    lens: Annotated[str | None, typer.Option(help="A saved lens, in place of an instruction.")] = None,
    collection: Annotated[
        str, typer.Option("--collection", "-c", help="Where to look; '*': in all of them.")
    ] = DEFAULT_COLLECTION,
    steps: Steps = None,
    mode: Mode = DEFAULT_MODE,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many hits, 1 to 100.")] = 10,
    filters: Filters = [],  # noqa: B006
    boost: Boost = [],  # noqa: B006
    suppress: Suppress = [],  # noqa: B006
    like: Annotated[list[str], typer.Option(metavar="CHUNK", help="More like this chunk, by id. Repeatable.")] = [],  # noqa: B006
    unlike: Annotated[list[str], typer.Option(metavar="CHUNK", help="Less like this chunk. Repeatable.")] = [],  # noqa: B006
    values: Values = None,
    value: Annotated[str | None, typer.Option(help="Only passages of this one of the values, or of 'other'.")] = None,
    rerank: Rerank = None,
    per_document: PerDocument = None,
    exclude: Exclude = [],  # noqa: B006
    detect_negation: DetectNegation = True,
    prefer_prose: PreferProse = True,
    fold_duplicates: FoldDuplicates = True,
    diversity: Diversity = 0.0,
    form: Form = None,
    as_json: Annotated[bool, typer.Option("--json", help="As --format json.")] = False,
    local: Local = False,
) -> None:
    """Search a collection, seen through an instruction.

    Where a service runs on the same home, it answers; else the model is loaded here.

    Example: gircse search "my card has not come" -c sample -i "Identify the feeling that the message expresses"
    """
    request = SearchRequest(
        query=query,
        collection=collection,
        steps=steps,
        limit=limit,
        filters=parse_filters(filters),
        token_bias=token_bias(boost, suppress),
        mode=mode,
        like=tuple(like),
        unlike=tuple(unlike),
        rerank=rerank,
        per_document=per_document,
        exclude=tuple(exclude),
        detect_negation=detect_negation,
        prefer_prose=prefer_prose,
        fold_duplicates=fold_duplicates,
        diversity=diversity,
    )
    check_request(request)
    form = chosen_form(form, as_json)
    seen = _Seen(lens, instruction, None if values is None else split_values(values), value)
    settings = load_settings()
    service = find_service(settings, local=local)
    result = _search_here(request, seen, settings) if service is None else _ask(service, request, seen)
    print_result(result, form)


@dataclass(frozen=True, slots=True)
class _Seen:
    """How the query is looked at, as it was written."""

    lens: str | None
    instruction: str | None
    values: Sequence[str] | None
    value: str | None


def chosen_form(form: Format | None, as_json: bool) -> Format | None:
    if as_json and form not in (None, Format.JSON):
        raise typer.BadParameter(f"--json is the format json, not {form}", param_hint="--format")
    return Format.JSON if as_json else form


def print_result(result: SearchResult, form: Format | None) -> None:
    match form:
        case Format.JSON:
            typer.echo(console.json_of(SearchAnswer.model_validate(result)))
        case Format.CSV:
            typer.echo(search_csv(result).replace("\r\n", "\n"), nl=False)  # lines as the system ends them
        case Format.MARKDOWN:
            typer.echo(search_markdown(result), nl=False)
        case _:
            console.print_search(result)


def _search_here(request: SearchRequest, seen: _Seen, settings: Settings) -> SearchResult:
    with open_services(settings, needs_model=True) as services:
        instruction, values = look_through(services.catalog, seen.lens, seen.instruction, seen.values)
        return services.search.search(replace(request, instruction=instruction, values=values, value=seen.value))


def _ask(service: RunningService, request: SearchRequest, seen: _Seen) -> SearchResult:
    body = {name: value for name, value in (asdict(request) | asdict(seen)).items() if value is not None}
    return RESULT.validate_json(service.post("/api/v1/search", body))


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
