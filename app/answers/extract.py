"""Extracts the sentences that answer a question from passages, by vectors and words, without a language model.

Weights and limits are measured in docs/evaluation/answers.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from app.search.bm25 import query_vector
from app.types.answers import AnswerSentence, Passage
from embedder.text.sentences import sentence_spans

MAX_SENTENCES = 128  # scored per question, from the best passages
MOST_SENTENCES = 3  # per answer
# A sentence's score is its cosine with the question, plus these weights times the share of the question's words in it
# and the cosine of its whole passage.
WORDS_WEIGHT, PASSAGE_WEIGHT = 0.55, 0.3
LEAST_SCORE = 0.83  # if the best sentence scores lower, there is no answer
MARGIN = 0.2  # sentences that score this much lower than the best one are left out

# A reader scores the best MOST_READ sentences again: its logit, bounded smoothly to ±MOST_LOGIT, plus this weight times
# the score above.
MOST_READ, MOST_LOGIT, READ_SCORE_WEIGHT = 12, 4.0, 5.0
LEAST_READ, READ_MARGIN = 5.8, 2.0  # like LEAST_SCORE and MARGIN, for these scores

# Question words and function words, which an answer need not contain.
_ASKING = frozenset(
    query_vector(
        "what which who whom whose when where why how many much long often old is are was were be been do does did can "
        "could would should will has have had the a an of in on at to for from by with and or it its this that there "
        "i me my we you your they their he his she her as into about than any some"
    ).indices
)


@dataclass(frozen=True, slots=True)
class SentenceCandidate:
    """A sentence of a passage: characters [start, end) of its chunk's text."""

    passage: int
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Scored:
    candidate: SentenceCandidate
    score: float


class Extracted(NamedTuple):
    """The sentences that answer; if there are none, the sentence that comes nearest to an answer."""

    sentences: tuple[AnswerSentence, ...] = ()
    nearest: AnswerSentence | None = None


def candidates_of(passages: Sequence[Passage]) -> list[SentenceCandidate]:
    """The first MAX_SENTENCES sentences of the passages, without questions."""
    sentences = [
        SentenceCandidate(passage.number, start, end, passage.chunk.text[start:end])
        for passage in passages
        for start, end in sentence_spans(passage.chunk.text)
    ]
    return [one for one in sentences if not one.text.rstrip("\"')]»”’").endswith(("?", "？"))][:MAX_SENTENCES]


def score_candidates(
    question: str, candidates: Sequence[SentenceCandidate], *, cosines: np.ndarray, passage_cosines: Sequence[float]
) -> list[Scored]:
    """Scores the candidates, best first; of equal texts only the best one.

    cosines, passage_cosines: (n,), of the question with each sentence, and with the sentence's passage.
    """
    shares = word_shares(question, [candidate.text for candidate in candidates])
    scores = cosines + WORDS_WEIGHT * np.asarray(shares) + PASSAGE_WEIGHT * np.asarray(passage_cosines)
    scored = [Scored(candidate, float(score)) for candidate, score in zip(candidates, scores, strict=True)]
    distinct: dict[str, Scored] = {}
    for one in sorted(scored, key=lambda one: -one.score):
        distinct.setdefault(one.candidate.text, one)
    return list(distinct.values())


def choose(scored: Sequence[Scored]) -> Extracted:
    """Chooses the sentences of the answer; none if the best one scores below LEAST_SCORE.

    scored: best first.
    """
    return _best(scored, least=LEAST_SCORE, margin=MARGIN)


def choose_by_reader(scored: Sequence[Scored], logits: np.ndarray) -> Extracted:
    """Chooses the sentences of the answer by scores and a reader's logits (n,) together; none if the best sum is below
    LEAST_READ.

    scored, logits: of the same sentences, in the same order.
    """
    sums = [
        Scored(one.candidate, MOST_LOGIT * math.tanh(logit / MOST_LOGIT) + READ_SCORE_WEIGHT * one.score)
        for one, logit in zip(scored, logits, strict=True)
    ]
    return _best(sorted(sums, key=lambda one: -one.score), least=LEAST_READ, margin=READ_MARGIN)


def _best(scored: Sequence[Scored], *, least: float, margin: float) -> Extracted:
    """Quotes at most MOST_SENTENCES; only `nearest` if the best one scores below `least`.

    scored: best first. margin: how far below the best one a sentence may score.
    """
    if not scored:
        return Extracted()
    if scored[0].score < least:
        return Extracted(nearest=_quoted(scored[0].candidate))
    near = [one for one in scored if one.score >= scored[0].score - margin]
    return Extracted(tuple(_quoted(one.candidate) for one in near[:MOST_SENTENCES]))


def _quoted(sentence: SentenceCandidate) -> AnswerSentence:
    return AnswerSentence(sentence.text, (sentence.passage,), start=sentence.start, end=sentence.end)


def asked_words(question: str) -> tuple[int, ...]:
    """Term ids of the content words of a question; of all its words if it has no content words."""
    words = query_vector(question).indices
    return tuple(word for word in words if word not in _ASKING) or words


def word_shares(question: str, sentences: Sequence[str]) -> list[float]:
    """Share of the question's words in each sentence, 0 to 1; rare words weigh more (IDF over these sentences)."""
    question_words = asked_words(question)
    words_of = [frozenset(query_vector(sentence).indices) for sentence in sentences]
    counts = Counter(word for words in words_of for word in words)
    rarity = {word: math.log(1 + (len(words_of) + 0.5) / (counts[word] + 0.5)) for word in question_words}
    whole = sum(rarity.values())
    return [
        _sum(rarity[word] for word in question_words if word in words) / whole if whole else 0.0 for words in words_of
    ]


def _sum(values: Iterable[float]) -> float:
    return sum(values, start=0.0)
