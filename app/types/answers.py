"""Requests for answers, and answers with their parts (immutable)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from app.types.search import HitChunk, HitDocument, Match

DEFAULT_PASSAGES, MAX_PASSAGES = 8, 20
MAX_TURNS = 8  # earlier questions of a conversation, with their answers
MAX_TURN_CHARACTERS = 8_000
MAX_QUESTION_CHARACTERS = 2_000


class AnswerKind(StrEnum):
    """Who writes the answer."""

    EXTRACT = "extract"  # quotes sentences of the documents. Nothing leaves this server
    GENERATE = "generate"  # the language model at GIRCSE_ANSWER_URL, which gets the passages


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier question and its answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    question: str
    collection: str
    kind: AnswerKind = AnswerKind.EXTRACT
    passages: int = DEFAULT_PASSAGES  # number of hits that may be cited
    filters: Mapping[str, str] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    dry_run: bool = False  # only report what would be sent to the language model
    among: frozenset[str] | None = None  # with ALL_COLLECTIONS: search only these


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage that may be cited. `number` counts from 1."""

    number: int
    document: HitDocument
    chunk: HitChunk
    match: Match | None = None


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence of an answer, with its citations. `text` has no citations. `start` and `end` are the bounds in the
    cited chunk, for an extracted sentence."""

    text: str
    citations: tuple[int, ...] = ()  # numbers of passages
    is_supported: bool = True  # a cited passage supports it, as far as that can be checked
    removed: tuple[int, ...] = ()  # citations of passages that do not exist
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A message to a language model."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a question, and the passages that it may cite. `sentences` are empty if no passage answers the
    question."""

    question: str
    searched: str  # the query used; in a conversation it includes the previous question
    collection: str
    kind: AnswerKind
    passages: tuple[Passage, ...]
    sentences: tuple[AnswerSentence, ...] = ()
    nearest: AnswerSentence | None = None  # if none answers the question: the sentence that comes nearest to it
    notes: tuple[str, ...] = ()  # remarks for the user
    sent: tuple[Message, ...] = ()  # messages to the language model; `dry_run` builds them without sending
    model: str | None = None  # that wrote the answer
    is_complete: bool = True  # False: the model's answer was cut off
    timings_ms: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_answered(self) -> bool:
        return bool(self.sentences)

    @property
    def quoted(self) -> tuple[AnswerSentence, ...]:
        """The sentences that answer; if there are none, the nearest."""
        return self.sentences or ((self.nearest,) if self.nearest else ())


@dataclass(frozen=True, slots=True)
class AnswerText:
    """A piece of text as the model writes it, not checked yet. `pending`: all text not yet in a checked sentence."""

    text: str
    pending: str = ""


# A streamed answer: first the Answer without sentences, then text pieces and checked sentences, last the whole Answer.
AnswerPart = Answer | AnswerText | AnswerSentence

NO_ANSWER = "No passage answers this."
