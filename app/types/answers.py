"""What is asked of an answer and what it says: frozen values that cross folder borders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from app.types.search import HitChunk, HitDocument, Match

DEFAULT_PASSAGES, MAX_PASSAGES = 8, 20
MAX_TURNS = 8  # earlier questions of a conversation, each with its answer
MAX_TURN_CHARACTERS = 8_000
MAX_QUESTION_CHARACTERS = 2_000


class AnswerKind(StrEnum):
    """Who words the answer."""

    EXTRACT = "extract"  # the documents: their own sentences. Nothing leaves this server
    GENERATE = "generate"  # the language model behind GIRCSE_ANSWER_URL, to which passages are sent


@dataclass(frozen=True, slots=True)
class Turn:
    """A question that was asked before, and its answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    question: str
    collection: str
    kind: AnswerKind = AnswerKind.EXTRACT
    passages: int = DEFAULT_PASSAGES  # so many of the first hits may be cited
    filters: Mapping[str, str] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    dry_run: bool = False  # say what would be sent, and send nothing
    among: frozenset[str] | None = None  # of ALL_COLLECTIONS only these


@dataclass(frozen=True, slots=True)
class Passage:
    """One that may be cited, by its number from 1."""

    number: int
    document: HitDocument
    chunk: HitChunk
    match: Match | None = None


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """`text` without the citations; `start` and `end` within the cited chunk, where it is a sentence of that."""

    text: str
    citations: tuple[int, ...] = ()  # numbers of passages
    is_supported: bool = True  # a cited passage says it, as far as that can be checked
    removed: tuple[int, ...] = ()  # citations of passages that there are not
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """Of what is sent to a language model."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Answer:
    """`sentences` are empty where no passage answers."""

    question: str
    searched: str  # the query that found the passages: with the question before, in a conversation
    collection: str
    kind: AnswerKind
    passages: tuple[Passage, ...]
    sentences: tuple[AnswerSentence, ...] = ()
    notes: tuple[str, ...] = ()  # what should be known of this answer, in plain words
    sent: tuple[Message, ...] = ()  # what the language model was sent, or with `dry_run` would be
    model: str | None = None  # that worded it
    is_complete: bool = True  # False: it was cut off
    timings_ms: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_answered(self) -> bool:
        return bool(self.sentences)


@dataclass(frozen=True, slots=True)
class AnswerText:
    """A piece of an answer as the model writes it: not checked yet. `pending`: all that is in no checked sentence."""

    text: str
    pending: str = ""


# What an answer consists of while it comes: itself without sentences, pieces of text, checked sentences, itself whole.
AnswerPart = Answer | AnswerText | AnswerSentence

NO_ANSWER = "No passage answers this."
