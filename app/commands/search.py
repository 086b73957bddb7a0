"""`gircse search`, `refine` and `embed`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

import typer

from app.api.search_schemas import RefinementAnswer, SearchAnswer
from app.collections.library import DEFAULT_COLLECTION
from app.commands import console
from app.commands.composition import embedder_of, open_services
from app.search.lenses import look_through
from app.search.service import refine_query
from app.search.value_syntax import split_values
from app.settings import load_settings
from app.types.search import BOOST, SUPPRESS, SearchMode, SearchRequest

Instruction = Annotated[
    str | None,
    typer.Option("--instruction", "-i", help="How to look at the text. Left out: the model's own; '': none."),
]
Steps = Annotated[int | None, typer.Option(help="Refinement steps. Left out: the model's own.")]
Boost = Annotated[list[str], typer.Option("--boost", metavar="WORD", help="Make the model think of WORD. Repeatable.")]
Suppress = Annotated[list[str], typer.Option("--suppress", metavar="WORD", help="Keep the model off WORD. Repeatable.")]
Values = Annotated[
    str | None,
    typer.Option(help="Values that the instruction tells apart: 'a, b, c' or 'a = synonym, synonym; b; c'. '': none."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, the same as the REST API answers.")]


def search(
    query: Annotated[str, typer.Argument(help="What you are looking for.")],
    instruction: Instruction = None,
    lens: Annotated[str | None, typer.Option(help="A saved lens, in place of an instruction.")] = None,
    collection: Annotated[str, typer.Option("--collection", "-c", help="Where to look.")] = DEFAULT_COLLECTION,
    steps: Steps = None,
    mode: Annotated[
        SearchMode, typer.Option(help="By the vector of the query (dense), by its words (sparse), or by both.")
    ] = SearchMode.HYBRID,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many hits, 1 to 100.")] = 10,
    filters: Annotated[
        list[str], typer.Option("--filter", metavar="KEY=VALUE", help="Only documents with this metadata. Repeatable.")
    ] = [],  # noqa: B006
    boost: Boost = [],  # noqa: B006
    suppress: Suppress = [],  # noqa: B006
    like: Annotated[list[str], typer.Option(metavar="CHUNK", help="More like this chunk, by id. Repeatable.")] = [],  # noqa: B006
    unlike: Annotated[list[str], typer.Option(metavar="CHUNK", help="Less like this chunk. Repeatable.")] = [],  # noqa: B006
    values: Values = None,
    value: Annotated[str | None, typer.Option(help="Only passages of this one of the values, or of 'other'.")] = None,
    rerank: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Look at the first N candidates again, under the instruction. 0: none. Left out: 20."
        ),
    ] = None,
    per_document: Annotated[
        int | None, typer.Option(metavar="N", help="At most N passages of one document. Left out: any number.")
    ] = None,
    prefer_prose: Annotated[
        bool, typer.Option(help="Tables of numbers and references count less, unless the query asks for such.")
    ] = True,
    fold_duplicates: Annotated[bool, typer.Option(help="Show near-identical passages with the best of them.")] = True,
    diversity: Annotated[
        float, typer.Option(metavar="0..1", help="0: by relevance alone, to 1: unlike what ranks above.")
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Search a collection, seen through an instruction.

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
        prefer_prose=prefer_prose,
        fold_duplicates=fold_duplicates,
        diversity=diversity,
    )
    with open_services() as services:
        written = None if values is None else split_values(values)
        instruction, named = look_through(services.catalog, lens, instruction, written)
        result = services.search.search(replace(request, instruction=instruction, values=named, value=value))
    if as_json:
        typer.echo(console.json_of(SearchAnswer.model_validate(result)))
    else:
        console.print_search(result)


def refine(
    text: Annotated[str, typer.Argument(help="A query.")],
    instruction: Instruction = None,
    steps: Steps = None,
    boost: Boost = [],  # noqa: B006
    suppress: Suppress = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Show the tokens that the model generates while it embeds a query.

    Example: gircse refine "I still haven't received my new card" -i "Identify the intent of the message"
    """
    bias = token_bias(boost, suppress)
    model = embedder_of(load_settings())
    embedding = refine_query(model, text, instruction=instruction, steps=steps, token_bias=bias)
    if as_json:
        typer.echo(console.json_of(RefinementAnswer.model_validate(embedding)))
    else:
        console.print_refinement(embedding)


def embed(
    texts: Annotated[list[str], typer.Argument(help="One or more texts.")],
    instruction: Instruction = None,
    steps: Steps = None,
    as_document: Annotated[bool, typer.Option("--document", help="Embed as documents, not as queries.")] = False,
) -> None:
    """Print the vector of each text, one JSON array per line.

    Example: gircse embed "a text" "another text" --document
    """
    model = embedder_of(load_settings())
    if as_document:
        vectors = model.embed_documents(
            texts,
            instruction=model.info.default_document_instruction if instruction is None else instruction,
            steps=model.info.default_document_steps if steps is None else steps,
        )
    else:
        vectors = [refine_query(model, text, instruction=instruction, steps=steps).vector.tolist() for text in texts]
    for vector in vectors:
        typer.echo(json.dumps(vector))


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
