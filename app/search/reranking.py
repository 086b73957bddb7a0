"""A second look at the first candidates of a search, joined with their first score. Knows no model, index or server."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from app.errors import UnavailableError
from app.ports.rerank import Passage, Reranker
from app.search.fusion import RankedPoint
from app.search.steering import WORD_ANGLE, strength_of
from app.types.chunk_text import embedded_text_of
from app.types.documents import ScoredPoint
from app.types.search import SearchRequest
from app.types.values import ValueReading

RERANK_WEIGHT = 0.7  # of 1, the first score has the rest: docs/evaluation/rerank.md
WORD_WEIGHT = math.tan(WORD_ANGLE)  # of a word that is to count more, or less, as in the first ranking

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidate:
    """`ranked.point.score` is what it is ranked by."""

    ranked: RankedPoint
    value: ValueReading | None = None
    rerank_score: float | None = None
    moved_from: int | None = None
    excluded: str | None = None
    duplicates: tuple[ScoredPoint, ...] = ()  # near-identical ones that ranked below it


@dataclass(frozen=True, slots=True)
class Reranked:
    """`notes` say why there was no second look."""

    candidates: Sequence[Candidate]
    notes: tuple[str, ...] = ()


def rerank(
    reranker: Reranker, candidates: Sequence[Candidate], request: SearchRequest, *, instruction: str
) -> Reranked:
    """The candidates, best first; the first `request.rerank` of them are ranked anew, above all others.

    A re-ranker that does not answer as it should leaves the first ranking.
    """
    looked_at = candidates[: request.rerank or 0]
    if not looked_at:
        return Reranked(candidates)
    try:
        passages = [_passage(each.ranked) for each in looked_at]
        scores = reranker.scores(request.query, passages, instruction=instruction)
        if request.token_bias:
            scores = spread(scores)
        for word, bias in request.token_bias.items():
            of_word = spread(reranker.scores(word, passages, instruction=instruction))
            steering = WORD_WEIGHT * strength_of(bias)
            scores = [score + steering * own for score, own in zip(scores, of_word, strict=True)]
    except UnavailableError as error:
        _log.warning("A search keeps its first ranking: %s", error)
        return Reranked(candidates, (f"This is the first ranking, without a second look. {error}",))
    joined = join_scores([each.ranked.point.score for each in candidates], scores, weight=RERANK_WEIGHT)
    again = [
        replace(each, ranked=with_score(each.ranked, score), rerank_score=own, moved_from=rank)
        for rank, (each, score, own) in enumerate(zip(looked_at, joined, scores, strict=False), start=1)
    ]
    again.sort(key=lambda each: (-each.ranked.point.score, each.moved_from or 0))
    rest = zip(candidates[len(looked_at) :], joined[len(looked_at) :], strict=True)
    return Reranked([*again, *(replace(each, ranked=with_score(each.ranked, score)) for each, score in rest)])


def join_scores(first: Sequence[float], second: Sequence[float], *, weight: float) -> list[float]:
    """`first` are in descending order, and the best of them have a second score as well; for each one of both, 0 to 1.

    Each kind counts from 0 for its lowest to 1 for its best: cosines under an instruction all lie close together. What
    was not looked at again gets the lowest second score, and so stays below all that was.
    """
    again = spread(second) + [0.0] * (len(first) - len(second))
    return [(1 - weight) * one + weight * other for one, other in zip(spread(first), again, strict=True)]


def spread(scores: Sequence[float]) -> list[float]:
    """0 for the lowest, 1 for the best, and for all that are equal."""
    lowest, best = min(scores, default=0.0), max(scores, default=0.0)
    return [(score - lowest) / (best - lowest) if best > lowest else 1.0 for score in scores]


def _passage(ranked: RankedPoint) -> Passage:
    payload = ranked.point.payload
    metadata = cast("Mapping[str, object]", payload["metadata"])
    return Passage(ranked.point.id, embedded_text_of(payload), str(metadata["text_hash"]))


def with_score(ranked: RankedPoint, score: float) -> RankedPoint:
    return replace(ranked, point=replace(ranked.point, score=score))
