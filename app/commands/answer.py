"""`gircse answer`: answers a question with citations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated

import typer
from pydantic import TypeAdapter

from app.answers.checks import check_answer_request
from app.api.answers import WholeAnswer
from app.commands import terminal
from app.commands.chosen_collection import SearchedCollection, chosen_collection
from app.commands.search import Filters, parse_filters
from app.commands.service import Local, find_service
from app.commands.wiring import open_services
from app.errors import InputError
from app.settings import load_settings
from app.types.answers import DEFAULT_PASSAGES, NO_ANSWER, Answer, AnswerKind, AnswerRequest, Turn
from app.types.defaults import DEFAULT_COLLECTION
from app.types.printable import printable

ANSWER = TypeAdapter(Answer)


def answer(
    question: Annotated[str, typer.Argument(help="A question, in words.")],
    collection: SearchedCollection = None,
    generate: Annotated[
        bool, typer.Option("--generate", help="Send question and passages to the model of GIRCSE_ANSWER_URL.")
    ] = False,
    passages: Annotated[int, typer.Option(metavar="N", help="The first N hits may be cited, 1 to 20.")] = (
        DEFAULT_PASSAGES
    ),
    filters: Filters = [],  # noqa: B006
    after: Annotated[
        list[str],
        typer.Option(metavar="QUESTION", help="Previous question; needs a --said each. Repeatable."),
    ] = [],  # noqa: B006
    said: Annotated[list[str], typer.Option(metavar="ANSWER", help="Its answer. Repeatable.")] = [],  # noqa: B006
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the prompt and send nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, as the REST API returns it.")] = False,
    local: Local = False,
) -> None:
    """Answer a question with sentences that cite passages, or report that no passage answers it.

    The sentences are copied from the documents, and nothing leaves this machine. With --generate a language model
    writes them.

    Example: gircse answer "How long does a new card take?" -c letters
    """
    request = AnswerRequest(
        question=question,
        collection=collection or DEFAULT_COLLECTION,
        kind=AnswerKind.GENERATE if generate or dry_run else AnswerKind.EXTRACT,
        passages=passages,
        filters=parse_filters(filters),
        turns=_turns(after, said),
        dry_run=dry_run,
    )
    check_answer_request(request)
    settings = load_settings()
    service = find_service(settings, local=local)
    if service is not None:
        request = replace(request, collection=chosen_collection(collection, service))
        body = {name: value for name, value in asdict(request).items() if value is not None}
        found = ANSWER.validate_json(service.post("/api/v1/answer", body))
    else:
        with open_services(settings) as services:
            chosen = chosen_collection(collection, services.catalog)
            found = services.answers.answer(replace(request, collection=chosen))
    if as_json:
        typer.echo(terminal.json_of(WholeAnswer.model_validate(found)))
    else:
        print_answer(found)


def print_answer(found: Answer) -> None:
    if found.sent and not found.sentences:
        for message in found.sent:
            typer.echo(f"--- {message.role}\n{printable(message.content)}")
        return
    for sentence in found.sentences:
        citations = "".join(f"[{number}]" for number in sentence.citations)
        doubt = "" if sentence.is_supported else " (no support found)"
        typer.echo(f"{printable(sentence.text)} {citations}{doubt}".rstrip())
    if not found.sentences:
        typer.echo(NO_ANSWER)
    if found.nearest is not None:
        typer.echo(f"The nearest sentence: “{printable(found.nearest.text)}” [{found.nearest.citations[0]}]")
    for note in found.notes:
        if note != NO_ANSWER:
            typer.echo(printable(note))
    cited = {number for sentence in found.quoted for number in sentence.citations}
    for passage in found.passages:
        if passage.number in cited:
            page = f", page {passage.chunk.page}" if passage.chunk.page is not None else ""
            title = passage.document.title or passage.document.uri
            typer.echo(f"[{passage.number}] {printable(title)}{page}  {terminal.address(passage.document.uri)}")


def _turns(questions: Sequence[str], answers: Sequence[str]) -> tuple[Turn, ...]:
    if len(questions) != len(answers):
        raise InputError("Each --after (previous question) needs a --said (its answer).")
    return tuple(map(Turn, questions, answers))
