"""Ports: answers with citations, and the language model that may word them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from app.types.answers import Answer, AnswerPart, AnswerRequest, Message


class Answers(Protocol):
    @property
    def model(self) -> str | None:
        """Name of the configured language model, or None."""
        ...

    def answer(self, request: AnswerRequest) -> Answer: ...
    def stream(self, request: AnswerRequest) -> Iterator[AnswerPart]:
        """Yields the answer without sentences as soon as its passages are found, then parts, and last the complete
        answer.
        """
        ...


class SentenceReader(Protocol):
    """Reads a question and a sentence together. Thread-safe."""

    @property
    def language(self) -> str:
        """The only language that it reads, by its English name."""
        ...

    def score(self, question: str, sentences: Sequence[str]) -> np.ndarray:
        """How well each sentence answers the question (n,), a logit."""
        ...


class LanguageModel(Protocol):
    """A model that generates text from messages. Thread-safe."""

    @property
    def name(self) -> str: ...
    def write(self, messages: Sequence[Message]) -> Iterator[str]:
        """Yields the generated text piece by piece. Closing the iterator ends the request.

        Raises LanguageModelUnavailableError, and CutOffError if the text ends too early.
        """
        ...

    def close(self) -> None: ...
