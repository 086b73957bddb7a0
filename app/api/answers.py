"""POST /api/v1/answer: an answer with citations, whole or as a stream of events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from app.api.base_schemas import RequestBody, ResponseBody
from app.api.events import MEDIA_TYPE, described_events, event, event_response, wants
from app.api.search_schemas import HitChunkAnswer, HitDocumentAnswer
from app.ports.answers import Answers
from app.types.answers import (
    DEFAULT_PASSAGES,
    MAX_PASSAGES,
    MAX_QUESTION_CHARACTERS,
    MAX_TURN_CHARACTERS,
    MAX_TURNS,
    AnswerKind,
    AnswerPart,
    AnswerRequest,
    AnswerSentence,
    AnswerText,
    Turn,
)
from app.types.defaults import DEFAULT_COLLECTION
from app.types.search import Match


class TurnQuestion(RequestBody):
    question: str = Field(max_length=MAX_TURN_CHARACTERS, examples=["Who leads the bank?"])
    answer: str = Field(max_length=MAX_TURN_CHARACTERS, examples=["Anna Berg has led it since 2019."])


class AnswerQuestion(RequestBody):
    question: str = Field(max_length=MAX_QUESTION_CHARACTERS, examples=["How long does a new card take?"])
    collection: str = Field(
        default=DEFAULT_COLLECTION,
        description="The collection to search. `*`: all collections that you may read.",
        examples=["sample"],
    )
    kind: AnswerKind = Field(
        default=AnswerKind.EXTRACT,
        description="extract: sentences copied from the documents; nothing leaves this server. generate: written by "
        "the language model that the operator configured; question, passages and turns are sent to it.",
    )
    passages: int = Field(
        default=DEFAULT_PASSAGES, ge=1, le=MAX_PASSAGES, description="How many of the first hits the answer may cite."
    )
    filters: dict[str, str] = Field(default_factory=dict, description="Document metadata that must match exactly.")
    turns: list[TurnQuestion] = Field(
        default_factory=list,
        max_length=MAX_TURNS,
        description="Earlier questions of this conversation with their answers, oldest first.",
        examples=[[]],
    )
    dry_run: bool = Field(default=False, description="Send nothing to the language model; `sent` has the prompt.")

    def as_request(self) -> AnswerRequest:
        return AnswerRequest(
            question=self.question,
            collection=self.collection,
            kind=self.kind,
            passages=self.passages,
            filters=self.filters,
            turns=tuple(Turn(turn.question, turn.answer) for turn in self.turns),
            dry_run=self.dry_run,
        )


class PassageAnswer(ResponseBody):
    number: int = Field(description="The number in `citations` of sentences.", examples=[1])
    document: HitDocumentAnswer
    chunk: HitChunkAnswer
    match: Match | None = Field(description="How well the passage answers, as in a search hit.")


class SentenceAnswer(ResponseBody):
    text: str = Field(examples=["A new card takes five days."])
    citations: list[int] = Field(description="Numbers of the cited passages.", examples=[[1]])
    is_supported: bool = Field(description="Whether a cited passage supports the sentence, as far as can be checked.")
    removed: list[int] = Field(description="Citations that were removed: no passage has this number.", examples=[[]])
    start: int | None = Field(
        description="First character in the text of the cited chunk. null: not copied from a chunk."
    )
    end: int | None


class TextPieceAnswer(ResponseBody):
    text: str


class MessageAnswer(ResponseBody):
    role: str
    content: str


class WholeAnswer(ResponseBody):
    question: str
    searched: str = Field(description="The query of the search. For a follow-up it includes the previous question.")
    collection: str
    kind: AnswerKind
    is_answered: bool = Field(description="false: no passage answers the question.")
    sentences: list[SentenceAnswer]
    nearest: SentenceAnswer | None = Field(
        description="Kind `extract`, if no passage answers the question: the sentence that comes nearest to it."
    )
    passages: list[PassageAnswer] = Field(description="Passages that the answer may cite, best first.")
    notes: list[str] = Field(description="Warnings about this answer.", examples=[[]])
    sent: list[MessageAnswer] = Field(
        description="The exact messages sent to the language model, or, with `dry_run`, that would be sent.",
        examples=[[]],
    )
    model: str | None = Field(description="Name of the language model, for `generate`.")
    is_complete: bool = Field(description="false: the answer was cut off.")
    timings_ms: dict[str, float]


EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            MEDIA_TYPE: {
                "schema": described_events(
                    "passages: a WholeAnswer without sentences. text: a piece of text that is not checked yet. "
                    "sentence: a SentenceAnswer. answer: the complete WholeAnswer, the last event. problem: problem "
                    "details, if the stream ended early.",
                    "passages",
                    "text",
                    "sentence",
                    "answer",
                    "problem",
                ),
                "example": 'event: text\ndata: {"text": "A new"}\n\n',
            }
        }
    }
}


def answer_routes(service: Answers) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["search"])

    @routes.post("/answer", response_model=WholeAnswer, responses=EVENTS)
    def answer(question: AnswerQuestion, http: Request) -> object:
        """Answers a question with sentences that cite passages; without sentences if no passage answers it.

        With `Accept: text/event-stream` the answer arrives as events: `passages`, then `text` while a language model
        writes and `sentence` for each checked sentence, then the complete `answer`.
        """
        request = question.as_request()
        if wants(http, MEDIA_TYPE):
            return event_response(_events(service.stream(request)))
        return service.answer(request)

    return routes


def _events(parts: Iterator[AnswerPart]) -> Iterator[bytes]:
    is_first = True
    for part in parts:
        if isinstance(part, AnswerText):
            yield event("text", TextPieceAnswer.model_validate(part))
        elif isinstance(part, AnswerSentence):
            yield event("sentence", SentenceAnswer.model_validate(part))
        else:
            yield event("passages" if is_first else "answer", WholeAnswer.model_validate(part))
        is_first = False
