"""The sentences of the passages found that answer a question, or none: by vectors and words, without a language model.

Measured in docs/evaluation/answers.md, where the weights and the limits come from, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from app.search.bm25 import query_vector
from app.types.answers import AnswerSentence, Passage
from embedder.text.sentences import sentence_spans

MAX_SENTENCES = 128  # of the passages, the best first
MOST_SENTENCES = 3  # of an answer
WORDS_WEIGHT = 0.55  # of the words of the question that a sentence holds, beside the cosine
PASSAGE_WEIGHT = 0.3  # of the cosine of its whole passage
MARGIN = 0.2  # a sentence so much below the best one is left out
LEAST_SCORE = 0.83  # of the best one; below it nothing answers

# Words of a question that say what is asked for, and stand in no answer.
_ASKING = frozenset(
    query_vector(
        "what which who whom whose when where why how many much long often old is are was were be been do does did can "
        "could would should will has have had the a an of in on at to for from by with and or it its this that there "
        "i me my we you your they their he his she her as into about than any some"
    ).indices
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence of a passage: characters [start, end) of its chunk's text."""

    passage: int
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Scored:
    candidate: Candidate
    score: float


def candidates_of(passages: Sequence[Passage]) -> list[Candidate]:
    """All sentences but questions, which ask what others answer."""
    found = [
        Candidate(each.number, start, end, each.chunk.text[start:end])
        for each in passages
        for start, end in sentence_spans(each.chunk.text)
    ]
    return [each for each in found if not each.text.rstrip("\"')]»”’").endswith(("?", "？"))][:MAX_SENTENCES]


def score_candidates(
    question: str, candidates: Sequence[Candidate], *, cosines: np.ndarray, passage_cosines: Sequence[float]
) -> list[Scored]:
    """The best first. `cosines` with the question: of each sentence, and of its whole passage."""
    shares = word_shares(question, [each.text for each in candidates])
    scores = cosines + WORDS_WEIGHT * np.asarray(shares) + PASSAGE_WEIGHT * np.asarray(passage_cosines)
    scored = [Scored(each, float(score)) for each, score in zip(candidates, scores, strict=True)]
    return sorted(scored, key=lambda each: -each.score)


def choose(scored: Sequence[Scored]) -> tuple[AnswerSentence, ...]:
    """None where the best one does not answer."""
    if not scored or scored[0].score < LEAST_SCORE:
        return ()
    near = [each for each in scored if each.score >= scored[0].score - MARGIN]
    chosen = {each.candidate.text: each for each in reversed(near)}  # of equal ones the best
    best = sorted(chosen.values(), key=lambda each: -each.score)[:MOST_SENTENCES]
    return tuple(
        AnswerSentence(
            each.candidate.text, (each.candidate.passage,), start=each.candidate.start, end=each.candidate.end
        )
        for each in best
    )


def asked_words(question: str) -> tuple[int, ...]:
    """Ids of its words that an answer may hold; all of them where it has no others."""
    words = query_vector(question).indices
    return tuple(each for each in words if each not in _ASKING) or words


def word_shares(question: str, sentences: Sequence[str]) -> list[float]:
    """How much of the question each sentence holds, from 0 to 1; words that few sentences hold count more."""
    asked = asked_words(question)
    held = [frozenset(query_vector(each).indices) for each in sentences]
    counts = Counter(word for words in held for word in words)
    rarity = {word: math.log(1 + (len(held) + 0.5) / (counts[word] + 0.5)) for word in asked}
    whole = sum(rarity.values())
    return [_sum(rarity[word] for word in asked if word in words) / whole if whole else 0.0 for words in held]


def _sum(values: Iterable[float]) -> float:
    return sum(values, start=0.0)
