"""Streams a language model's answer and checks each sentence against the passages that it cites."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing

from app.answers.citations import CitationReader, Cited
from app.answers.prompt import REFUSAL
from app.answers.support import Vectors, is_supported
from app.errors import LanguageModelUnavailableError
from app.ports.answers import LanguageModel
from app.types.answers import AnswerSentence, AnswerText, Message, Passage


class GeneratedAnswer:
    """One generated answer. `notes` and `is_complete` are final once `parts` is exhausted."""

    def __init__(self, model: LanguageModel, passages: Sequence[Passage], *, vectors: Vectors) -> None:
        self._model = model
        self._texts: Mapping[int, str] = {
            passage.number: f"{passage.chunk.context}\n\n{passage.chunk.text}" for passage in passages
        }
        self._vectors = vectors
        self._removed: dict[int, None] = {}
        self._sentences = self._unsupported = 0
        self._cut_off = ""

    @property
    def is_complete(self) -> bool:
        return not self._cut_off

    @property
    def notes(self) -> tuple[str, ...]:
        removed = ", ".join(map(str, self._removed))
        return tuple(_answer_notes(self._cut_off, removed, self._unsupported, self._sentences))

    def parts(self, messages: Sequence[Message]) -> Iterator[AnswerText | AnswerSentence]:
        """Yields text as it arrives, and each sentence once it is complete and checked.

        Raises LanguageModelUnavailableError if the model fails before the first piece; after that, a failure ends the
        answer early (`is_complete` is False).
        """
        reader = CitationReader()
        has_begun = False
        with closing(_pieces(self._model, messages)) as pieces:
            try:
                for piece in pieces:
                    has_begun = True
                    yield from self._checked(reader.read(piece))
                    yield AnswerText(piece, reader.pending)
            except LanguageModelUnavailableError as error:
                if not has_begun:
                    raise
                self._cut_off = str(error)
        yield from self._checked(reader.finish())

    def _checked(self, found: Iterator[Cited]) -> Iterator[AnswerSentence]:
        for cited in found:
            if not cited.text.upper().startswith(REFUSAL):
                yield self._check(cited)

    def _check(self, cited: Cited) -> AnswerSentence:
        known = tuple(number for number in cited.numbers if number in self._texts)
        removed = tuple(number for number in cited.numbers if number not in self._texts)
        supported = is_supported(cited.text, [self._texts[number] for number in known], vectors=self._vectors)
        self._removed.update(dict.fromkeys(removed))
        self._sentences += 1
        self._unsupported += not supported
        return AnswerSentence(cited.text, known, is_supported=supported, removed=removed)


def _pieces(model: LanguageModel, messages: Sequence[Message]) -> Generator[str]:
    """A generator around the model's iterator, since only a generator has the `close` that ends the request."""
    yield from model.write(messages)


def _answer_notes(reason: str, removed: str, unsupported: int, count: int) -> Iterator[str]:
    if reason:
        yield f"The answer is not complete. {reason}"
    if removed:
        yield f"Removed citations of passages that the model did not get: {removed}."
    if unsupported:
        yield f"{unsupported} of {count} sentences have no support in the passages that they cite."
