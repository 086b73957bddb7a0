"""Answers with citations, as interfaces ask for them, and the language model that may word them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from app.types.answers import Answer, AnswerPart, AnswerRequest, Message


class Answers(Protocol):
    @property
    def model(self) -> str | None:
        """The language model that can be asked, by name; None where none is set up."""
        ...

    def answer(self, request: AnswerRequest) -> Answer: ...
    def stream(self, request: AnswerRequest) -> Iterator[AnswerPart]:
        """First the answer without its sentences, as soon as its passages are found; last the whole one."""
        ...


class LanguageModel(Protocol):
    """Safe to call from several threads."""

    @property
    def name(self) -> str: ...
    def write(self, messages: Sequence[Message]) -> Iterator[str]:
        """The text that follows, piece by piece. Closing the iterator ends the request.

        Raises LanguageModelUnavailableError, and CutOffError where the text ended too soon.
        """
        ...

    def close(self) -> None: ...
