"""The words of a language model, sentence by sentence, each checked against the passages that it cites."""

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
    """`notes` and `is_complete` hold once `parts` has ended."""

    def __init__(self, model: LanguageModel, passages: Sequence[Passage], *, vectors: Vectors) -> None:
        self._model = model
        self._texts: Mapping[int, str] = {
            each.number: f"{each.chunk.context}\n\n{each.chunk.text}" for each in passages
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
        """Raises LanguageModelUnavailableError where not one word came."""
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
        for each in found:
            if not each.text.upper().startswith(REFUSAL):
                yield self._check(each)

    def _check(self, cited: Cited) -> AnswerSentence:
        known = tuple(each for each in cited.numbers if each in self._texts)
        removed = tuple(each for each in cited.numbers if each not in self._texts)
        supported = is_supported(cited.text, [self._texts[each] for each in known], vectors=self._vectors)
        self._removed.update(dict.fromkeys(removed))
        self._sentences += 1
        self._unsupported += not supported
        return AnswerSentence(cited.text, known, is_supported=supported, removed=removed)


def _pieces(model: LanguageModel, messages: Sequence[Message]) -> Generator[str]:
    """With a `close`, which ends the request."""
    yield from model.write(messages)


def _answer_notes(reason: str, removed: str, unsupported: int, count: int) -> Iterator[str]:
    if reason:
        yield f"The answer is not complete. {reason}"
    if removed:
        yield f"Citations of passages that the model was not sent were removed: {removed}."
    if unsupported:
        yield f"{unsupported} of {count} sentences have no support in the passages that they cite."
