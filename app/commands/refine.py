"""`gircse refine` and `embed`: refinement tokens and vectors of texts, without a collection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

import numpy as np
import typer

from app.api.search_schemas import RefinementAnswer
from app.commands import terminal
from app.commands.search import AsJson, Boost, Instruction, Steps, Suppress, token_bias
from app.commands.service import Local, RunningService, find_service
from app.commands.wiring import embedder_of
from app.search.request_checks import check_query
from app.search.service import refine_query
from app.settings import Settings, load_settings
from embedder.refinement import Refinement
from embedder.refinement_steps import RefinementStep, RefinementToken


def refine(
    text: Annotated[str, typer.Argument(help="A query.")],
    instruction: Instruction = None,
    steps: Steps = None,
    boost: Boost = [],  # noqa: B006
    suppress: Suppress = [],  # noqa: B006
    as_json: AsJson = False,
    local: Local = False,
) -> None:
    """Show the tokens that the model predicts in each refinement step while it embeds a query.

    Example: gircse refine "I still haven't received my new card" -i "Identify the intent of the message"
    """
    bias = token_bias(boost, suppress)
    check_query(text)
    settings = load_settings()
    service = find_service(settings, local=local)
    if service is None:
        model = embedder_of(settings)
        found = refine_query(model, text, instruction=instruction, steps=steps, token_bias=bias)
    else:
        found = _ask(service, text, instruction=instruction, steps=steps, bias=bias)
    if as_json:
        typer.echo(terminal.json_of(RefinementAnswer.model_validate(found)))
    else:
        terminal.print_refinement(found)


def embed(
    texts: Annotated[list[str], typer.Argument(help="One or more texts.")],
    instruction: Instruction = None,
    steps: Steps = None,
    as_document: Annotated[bool, typer.Option("--document", help="Embed as documents, not as queries.")] = False,
    local: Local = False,
) -> None:
    """Print the vector of each text, one JSON array per line.

    Example: gircse embed "a text" "another text" --document
    """
    settings = load_settings()
    service = find_service(settings, local=local)
    if service is None:
        vectors = _embed_here(settings, texts, instruction=instruction, steps=steps, as_document=as_document)
    else:
        vectors = _embed_there(service, texts, instruction=instruction, steps=steps, as_document=as_document)
    for vector in vectors:
        typer.echo(json.dumps(vector))


def _embed_here(
    settings: Settings, texts: list[str], *, instruction: str | None, steps: int | None, as_document: bool
) -> list[list[float]]:
    model = embedder_of(settings)
    if not as_document:
        return [refine_query(model, text, instruction=instruction, steps=steps).vector.tolist() for text in texts]
    return model.embed_documents(
        texts,
        instruction=model.info.default_document_instruction if instruction is None else instruction,
        steps=model.info.default_document_steps if steps is None else steps,
    )


def _embed_there(
    service: RunningService, texts: list[str], *, instruction: str | None, steps: int | None, as_document: bool
) -> list[list[float]]:
    if not as_document:
        return [_ask(service, text, instruction=instruction, steps=steps).vector.tolist() for text in texts]
    model = json.loads(service.get("/api/v1/model"))["model_name"]
    body = {"model": model, "input": texts, "input_type": "document", "instruction": instruction, "steps": steps}
    return [each["embedding"] for each in json.loads(service.post("/v1/embeddings", body))["data"]]


def _ask(
    service: RunningService,
    text: str,
    *,
    instruction: str | None,
    steps: int | None,
    bias: Mapping[str, float] = MappingProxyType({}),
) -> Refinement:
    body = {"text": text, "instruction": instruction, "steps": steps, "token_bias": dict(bias)}
    found = json.loads(service.post("/api/v1/refine", body))
    made = tuple(
        RefinementStep(each["step"], tuple(RefinementToken(**token) for token in each["tokens"]), each["remaining"])
        for each in found["refinement"]
    )
    return Refinement(text, found["instruction"], np.array(found["vector"]), made, read_text=found["read_text"])
