"""Re-ranks the first candidates and combines both scores. Knows no model, index or server."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from app.errors import UnavailableError
from app.ports.rerank import Reranker, RerankPassage
from app.search.fusion import RankedPoint, word_share
from app.search.retrieval import term_count
from app.search.steering import WORD_ANGLE, strength_of
from app.types.chunk_text import embedded_text_of
from app.types.documents import ScoredPoint
from app.types.search import SearchMode, SearchRequest
from app.types.values import ValueReading

RERANK_WEIGHT = 0.5  # of the re-ranker's score; the first score has the rest: docs/evaluation/calibration.md
WORD_WEIGHT = math.tan(WORD_ANGLE)  # weight of a boosted or suppressed word, as in the first ranking

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point on its way to a hit. `ranked.point.score` decides the ranking."""

    ranked: RankedPoint
    value: ValueReading | None = None
    rerank_score: float | None = None
    moved_from: int | None = None
    excluded: str | None = None
    duplicates: tuple[ScoredPoint, ...] = ()  # near-identical points that ranked lower


@dataclass(frozen=True, slots=True)
class Reranked:
    """The candidates after re-ranking, best first. `notes` say why the candidates could not be re-ranked, if so."""

    candidates: Sequence[Candidate]
    notes: tuple[str, ...] = ()


def rerank(
    reranker: Reranker, candidates: Sequence[Candidate], request: SearchRequest, *, instruction: str
) -> Reranked:
    """Re-ranks the first `request.rerank` candidates, which stay above all others. Returns all, best first.

    If the re-ranker is unavailable or its answer is invalid, keeps the first ranking and adds a note.
    """
    head = candidates[: request.rerank or 0]
    if not head:
        return Reranked(candidates)
    try:
        passages = [passage_of(candidate.ranked.point.id, candidate.ranked.point.payload) for candidate in head]
        scores = list(reranker.scores(request.query, passages, instruction=instruction))
        steerings = {word: WORD_WEIGHT * strength_of(bias) for word, bias in request.token_bias.items()}
        for word, steering in steerings.items():
            word_scores = reranker.scores(word, passages, instruction=instruction)
            scores = [score + steering * word_score for score, word_score in zip(scores, word_scores, strict=True)]
    except UnavailableError as error:
        _log.warning("A search was not re-ranked: %s", error)
        return Reranked(candidates, (f"The hits were not re-ranked. {error}",))
    length = math.hypot(1, *steerings.values())  # of the query's vector with the words added
    first = first_scores(candidates, request)
    joined = join_scores(first, [score / length for score in scores], weight=RERANK_WEIGHT)
    reranked = [
        replace(candidate, ranked=with_score(candidate.ranked, score), rerank_score=rerank_score, moved_from=rank)
        for rank, (candidate, score, rerank_score) in enumerate(zip(head, joined, scores, strict=False), start=1)
    ]
    reranked.sort(key=lambda candidate: (-candidate.ranked.point.score, candidate.moved_from or 0))
    rest = [
        replace(candidate, ranked=with_score(candidate.ranked, score))
        for candidate, score in zip(candidates[len(head) :], joined[len(head) :], strict=True)
    ]
    return Reranked([*reranked, *rest])


def first_scores(candidates: Sequence[Candidate], request: SearchRequest) -> list[float]:
    """The scores before re-ranking, on one scale for all modes: 0 to 1, or cosines."""
    scores = [candidate.ranked.point.score for candidate in candidates]
    if request.mode is not SearchMode.SPARSE:
        return scores
    terms = term_count(request)
    return [word_share(score, terms) for score in scores]


def join_scores(first: Sequence[float], second: Sequence[float], *, weight: float) -> list[float]:
    """The weighted mean of first scores and re-ranking scores.

    Neither is rescaled, so that a score says how good a passage is, whatever the other passages are.

    first: descending. second: scores of the first len(second) candidates. weight: of the second scores. Candidates
    without a second score count as if it were 0, and stay below the others.
    """
    joined = [(1 - weight) * one + weight * other for one, other in zip(first, second, strict=False)]
    lowest = min(joined, default=0.0)
    return [*joined, *(min(lowest, (1 - weight) * one) for one in first[len(second) :])]


def spread(scores: Sequence[float]) -> list[float]:
    """Min-max scaling: the lowest becomes 0 and the best 1; all become 1 if they are equal."""
    lowest, best = min(scores, default=0.0), max(scores, default=0.0)
    return [(score - lowest) / (best - lowest) if best > lowest else 1.0 for score in scores]


def passage_of(point_id: str, payload: Mapping[str, object]) -> RerankPassage:
    metadata = cast("Mapping[str, object]", payload["metadata"])
    return RerankPassage(point_id, embedded_text_of(payload), str(metadata["text_hash"]))


def with_score(ranked: RankedPoint, score: float) -> RankedPoint:
    return replace(ranked, point=replace(ranked.point, score=score))
