"""POST /api/v1/answer: an answer with citations, whole or as it comes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from app.api.base_schemas import Answer, Posted
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


class TurnQuestion(Posted):
    question: str = Field(max_length=MAX_TURN_CHARACTERS, examples=["Who leads the bank?"])
    answer: str = Field(max_length=MAX_TURN_CHARACTERS, examples=["Anna Berg has led it since 2019."])


class AnswerQuestion(Posted):
    question: str = Field(max_length=MAX_QUESTION_CHARACTERS, examples=["How long does a new card take?"])
    collection: str = Field(
        default=DEFAULT_COLLECTION,
        description="Where to look. `*`: in all that the caller may see.",
        examples=["sample"],
    )
    kind: AnswerKind = Field(
        default=AnswerKind.EXTRACT,
        description="extract: sentences of the documents; nothing leaves this server. generate: words of the language "
        "model that the operator has set up, to which question, passages and turns are sent.",
    )
    passages: int = Field(
        default=DEFAULT_PASSAGES, ge=1, le=MAX_PASSAGES, description="So many of the first hits may be cited."
    )
    filters: dict[str, str] = Field(default_factory=dict, description="Document metadata that must be equal.")
    turns: list[TurnQuestion] = Field(
        default_factory=list,
        max_length=MAX_TURNS,
        description="What was asked before in this conversation, and its answers, the oldest first.",
        examples=[[]],
    )
    dry_run: bool = Field(default=False, description="Send nothing; `sent` says what would be.")

    def as_request(self) -> AnswerRequest:
        return AnswerRequest(
            question=self.question,
            collection=self.collection,
            kind=self.kind,
            passages=self.passages,
            filters=self.filters,
            turns=tuple(Turn(each.question, each.answer) for each in self.turns),
            dry_run=self.dry_run,
        )


class PassageAnswer(Answer):
    number: int = Field(description="By which sentences cite it.", examples=[1])
    document: HitDocumentAnswer
    chunk: HitChunkAnswer
    match: Match | None = Field(description="How well it answers, as of a hit.")


class SentenceAnswer(Answer):
    text: str = Field(examples=["A new card takes five days."])
    citations: list[int] = Field(description="Numbers of passages.", examples=[[1]])
    is_supported: bool = Field(description="Whether a passage that it cites says it, as far as can be checked.")
    removed: list[int] = Field(description="Citations of passages that there are not.", examples=[[]])
    start: int | None = Field(description="Within the text of the cited chunk, where it is a sentence of that.")
    end: int | None


class TextPieceAnswer(Answer):
    text: str


class MessageAnswer(Answer):
    role: str
    content: str


class WholeAnswer(Answer):
    question: str
    searched: str = Field(description="What was searched for: a follow-up together with the question before it.")
    collection: str
    kind: AnswerKind
    is_answered: bool = Field(description="False: no passage answers this.")
    sentences: list[SentenceAnswer]
    passages: list[PassageAnswer] = Field(description="That may be cited, the best first.")
    notes: list[str] = Field(description="What should be known of this answer.", examples=[[]])
    sent: list[MessageAnswer] = Field(
        description="What the language model was sent, to the letter; with `dry_run`, would be.", examples=[[]]
    )
    model: str | None = Field(description="The language model, for `generate`.")
    is_complete: bool = Field(description="False: it was cut off.")
    timings_ms: dict[str, float]


EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            MEDIA_TYPE: {
                "schema": described_events(
                    "A WholeAnswer without its sentences (passages) and with them (answer, the last), a piece of text "
                    "that is not checked yet, a SentenceAnswer, or problem details where it ended early.",
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
        """An answer of sentences that cite passages, or none where no passage answers.

        With `Accept: text/event-stream` it comes in parts: `passages`, then `text` as a language model writes it and
        `sentence` as each is checked, then the whole `answer`.
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
