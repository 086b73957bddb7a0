"""Answers on the search page without Gradio: untrusted plain values in, HTML out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.errors import InputError
from app.ports.answers import Answers
from app.types.answers import (
    MAX_QUESTION_CHARACTERS,
    MAX_TURN_CHARACTERS,
    MAX_TURNS,
    Answer,
    AnswerKind,
    AnswerRequest,
    AnswerSentence,
    AnswerText,
    Turn,
)
from ui.choices import read_choices
from ui.handler_inputs import read_choice, read_text
from ui.language import _
from ui.render.answer import render_answer

_MOST_JSON = 2 * MAX_TURNS * (MAX_QUESTION_CHARACTERS + MAX_TURN_CHARACTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerHandlers:
    answers: Answers

    def answer(self, query: object, collection: object, choices: object) -> Iterator[tuple[str]]:
        """Answers the search query with quotes from the documents. Sends nothing to a language model."""
        yield from self.ask(collection, choices, {"question": query, "kind": AnswerKind.EXTRACT.value})

    def ask(self, collection: object, choices: object, data: Mapping[str, object]) -> Iterator[tuple[str]]:
        """Answers a question from a button or the follow-up field. `data` has the question, kind and earlier turns."""
        request = AnswerRequest(
            question=read_text(data.get("question"), name="question", max_chars=MAX_QUESTION_CHARACTERS),
            collection=read_choice(collection, name="collection"),
            kind=_read_kind(data.get("kind")),
            filters=read_choices(choices).filters,
            turns=_read_turns(data.get("turns")),
        )
        head: Answer | None = None
        sentences: list[AnswerSentence] = []
        for part in self.answers.stream(request):
            if isinstance(part, Answer):
                is_whole, head = head is not None, part
                yield (self._render(part, part.sentences, request, is_whole=is_whole),)
                continue
            if isinstance(part, AnswerSentence):
                sentences.append(part)
            if head is not None:
                unchecked = part.pending if isinstance(part, AnswerText) else ""
                yield (self._render(head, sentences, request, unchecked=unchecked, is_whole=False),)

    def _render(
        self,
        answer: Answer,
        sentences: list[AnswerSentence] | tuple[AnswerSentence, ...],
        request: AnswerRequest,
        *,
        unchecked: str = "",
        is_whole: bool,
    ) -> str:
        return render_answer(
            answer, sentences, turns=request.turns, unchecked=unchecked, is_whole=is_whole, model=self.answers.model
        )


def _read_kind(value: object) -> AnswerKind:
    try:
        return AnswerKind(str(value))
    except ValueError:
        raise InputError(_("Invalid request. Reload the page.")) from None


def _read_turns(value: object) -> tuple[Turn, ...]:
    """Parses the earlier turns; keeps only the latest if there are too many."""
    if value is None or value == "":
        return ()
    refusal = InputError(_("Invalid request. Reload the page."))
    if not isinstance(value, str) or len(value) > _MOST_JSON:
        raise refusal
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        raise refusal from None
    if not isinstance(found, list) or not all(_is_turn(each) for each in found):
        raise refusal
    return tuple(Turn(question, answer[:MAX_TURN_CHARACTERS]) for question, answer in found[-MAX_TURNS:])


def _is_turn(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(each, str) for each in value)
