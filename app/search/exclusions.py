"""Excludes the phrases of `SearchRequest.exclude`, and phrases that the query negates ("… but not X").

Passages about an excluded phrase are demoted. If the phrase names a value of the lens, its passages are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.ports.parts import SearchedIndex
from app.search.bm25 import document_vector, query_vector
from app.search.negation import find_negation
from app.search.reranking import Candidate
from app.search.retrieval import EXCLUSION_CANDIDATES
from app.search.value_reader import ValueReader
from app.types.chunk_text import embedded_text_of
from app.types.documents import Collection
from app.types.search import (
    MAX_EXCLUSIONS,
    Exclusion,
    ExclusionEffect,
    SearchMode,
    SearchRequest,
)
from app.types.values import LensValue, ValueSummary

# All chosen on the tuning half: docs/evaluation/negation.md
# A passage's cosine with the phrase, in standard deviations above the candidates' mean. The penalty grows linearly
# from 0 at ABOUT_FROM to the whole score at ABOUT_FULLY.
ABOUT_FROM, ABOUT_FULLY = 1.0, 3.0
LEAST_MARGIN = 2.0  # over phrases of other subjects; below it, the passage is not about the phrase
NAMED = 0.5  # least penalty, as a share of the score, of a passage with all words of the phrase
_LEAST_DEVIATION = 0.02  # floor, for few candidates


@dataclass(frozen=True, slots=True)
class Negated:
    """A request whose negated phrases (`taken`) moved from `query` to `exclude`. Phrases in `offered` were less clear:
    they stay in the query, as suggestions to the user."""

    request: SearchRequest
    taken: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()


def exclude_negated(request: SearchRequest) -> Negated:
    """Moves the phrases that the query clearly negates into `exclude`.

    Without `detect_negation`, or if MAX_EXCLUSIONS would be exceeded, only tidies the given phrases.
    """
    given = tuple(dict.fromkeys(" ".join(phrase.split()) for phrase in request.exclude))
    request = replace(request, exclude=given)
    negation = find_negation(request.query) if request.detect_negation else None
    if negation is None or not negation.phrases:
        return Negated(request)
    known = {phrase.casefold() for phrase in given}
    new = tuple(phrase for phrase in negation.phrases if phrase.casefold() not in known)
    if new and not negation.is_clear:
        return Negated(request, offered=new)
    if len(given) + len(new) > MAX_EXCLUSIONS:
        return Negated(request)
    return Negated(replace(request, query=negation.text, exclude=(*given, *new)), taken=new)


def excluded_values(request: SearchRequest) -> dict[str, str]:
    """Maps each excluded phrase that is a name or synonym of one of the request's values to that value's name."""
    names = {spelling.casefold(): value.name for value in request.values for spelling in _spellings(value)}
    return {phrase: names[phrase.casefold()] for phrase in request.exclude if phrase.casefold() in names}


def _spellings(value: LensValue) -> Iterable[str]:
    for phrase in value.phrases:
        yield phrase
        yield phrase.casefold().removeprefix("the ")


class ExclusionRanker:
    """Demotes candidates by how much they are about an excluded phrase."""

    def __init__(self, index: SearchedIndex, reader: ValueReader) -> None:
        self._index = index
        self._reader = reader

    def demote(
        self, candidates: Sequence[Candidate], request: SearchRequest, collection: Collection
    ) -> Sequence[Candidate]:
        """Returns the candidates in their new order, best first. Mode sparse compares words only, never vectors."""
        values = excluded_values(request)
        phrases = [phrase for phrase in request.exclude if phrase not in values]
        if not phrases or not candidates:
            return candidates
        penalties = penalties_by_name(candidates, phrases)
        if request.mode is not SearchMode.SPARSE:
            most = max(EXCLUSION_CANDIDATES, 2 * request.limit)
            penalties[:most] = np.maximum(penalties[:most], self._aboutness(candidates[:most], phrases, collection))
        return demoted(candidates, phrases, penalties)

    def _aboutness(self, candidates: Sequence[Candidate], phrases: Sequence[str], collection: Collection) -> np.ndarray:
        """`aboutness` of each candidate for each phrase: (n, P); 0 for points that were deleted since."""
        ids = [candidate.ranked.point.id for candidate in candidates]
        present, vectors = self._index.vectors(collection.active_index, ids)
        shares = np.zeros((len(ids), len(phrases)))
        if len(present):
            rows = [ids.index(point_id) for point_id in present]
            shares[rows] = aboutness(*self._reader.nearness(vectors, phrases, collection=collection))
        return shares


def aboutness(cosines: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """How much of its score each candidate loses for each phrase: (n, P), 0 to 1.

    cosines: (n, P), of candidates and phrases. margins: (n, P), how much nearer the phrase is than other subjects.
    """
    deviations = np.maximum(cosines.std(axis=0), _LEAST_DEVIATION)
    standing_out = (cosines - cosines.mean(axis=0)) / deviations
    share = np.clip((standing_out - ABOUT_FROM) / (ABOUT_FULLY - ABOUT_FROM), 0.0, 1.0)
    return np.where(margins >= LEAST_MARGIN, share, 0.0)


def penalties_by_name(candidates: Sequence[Candidate], phrases: Sequence[str]) -> np.ndarray:
    """(n, P): NAMED where a passage has all words of a phrase (stemmed), else 0."""
    wanted = [set(query_vector(phrase).indices) for phrase in phrases]
    passages = [set(document_vector(embedded_text_of(each.ranked.point.payload)).indices) for each in candidates]
    return np.array([[NAMED if terms and terms <= held else 0.0 for terms in wanted] for held in passages])


def demoted(candidates: Sequence[Candidate], phrases: Sequence[str], penalties: np.ndarray) -> Sequence[Candidate]:
    """Takes each candidate's greatest penalty off its score and sorts again; the sort is stable.

    penalties: (n, P), as shares of the score.
    """
    changed = []
    for candidate, shares in zip(candidates, penalties, strict=True):
        share, point = float(shares.max()), candidate.ranked.point
        if share > 0:
            point = replace(point, score=point.score - share * abs(point.score))
            ranked = replace(candidate.ranked, point=point)
            candidate = replace(candidate, ranked=ranked, excluded=phrases[int(shares.argmax())])
        changed.append(candidate)
    return sorted(changed, key=lambda candidate: -candidate.ranked.point.score)


def reported_exclusions(
    negated: Negated, candidates: Sequence[Candidate], values: ValueSummary | None
) -> tuple[Exclusion, ...]:
    """The effect of each exclusion, with the number of passages concerned; mere suggestions come last."""
    value_of = excluded_values(negated.request)
    counts = {} if values is None else {value.name: value.count for value in values.counts}
    applied = []
    for phrase in negated.request.exclude:
        value = value_of.get(phrase)
        effect = ExclusionEffect.RANK if value is None else ExclusionEffect.VALUE
        demoted_count = sum(candidate.excluded == phrase for candidate in candidates)
        passages = demoted_count if value is None else counts.get(value, 0)
        applied.append(Exclusion(phrase, effect, phrase in negated.taken, value, passages))
    offered = (Exclusion(phrase, ExclusionEffect.OFFERED, is_detected=True) for phrase in negated.offered)
    return (*applied, *offered)
