"""What a search is not to be about: phrases that it was given, and those that its query negates. A passage about one
ranks lower; where a value of the lens is the phrase, passages of it are left out. Knows neither model nor index.
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
# By how many standard deviations it is nearer to the phrase than the candidates are: nothing is taken off a score up to
# the first, and all of it from the second on.
ABOUT_FROM, ABOUT_FULLY = 1.0, 3.0
LEAST_MARGIN = 2.0  # and nearer than phrases of other subjects are: otherwise nothing here is about the phrase
NAMED = 0.5  # what is taken off at least where the passage has all words of the phrase
_LEAST_DEVIATION = 0.02  # of a handful of candidates


@dataclass(frozen=True, slots=True)
class Negated:
    """A request with what its query negates in `exclude` and out of the query; `offered` stays in the query, until a
    person says that this was meant."""

    request: SearchRequest
    taken: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()


def exclude_negated(request: SearchRequest) -> Negated:
    given = tuple(dict.fromkeys(" ".join(each.split()) for each in request.exclude))
    request = replace(request, exclude=given)
    found = find_negation(request.query) if request.detect_negation else None
    if found is None or not found.phrases:
        return Negated(request)
    named = {each.casefold() for each in given}
    new = tuple(each for each in found.phrases if each.casefold() not in named)
    if new and not found.is_clear:
        return Negated(request, offered=new)
    if len(given) + len(new) > MAX_EXCLUSIONS:
        return Negated(request)
    return Negated(replace(request, query=found.text, exclude=(*given, *new)), taken=new)


def excluded_values(request: SearchRequest) -> dict[str, str]:
    """Phrase → name of the value that it is, by name or synonym."""
    names = {phrase.casefold(): value.name for value in request.values for phrase in _spellings(value)}
    return {each: names[each.casefold()] for each in request.exclude if each.casefold() in names}


def _spellings(value: LensValue) -> Iterable[str]:
    for phrase in value.phrases:
        yield phrase
        yield phrase.casefold().removeprefix("the ")


class ExclusionRanker:
    """Pushes candidates down by how much they are about a phrase."""

    def __init__(self, index: SearchedIndex, reader: ValueReader) -> None:
        self._index = index
        self._reader = reader

    def push_down(
        self, candidates: Sequence[Candidate], request: SearchRequest, collection: Collection
    ) -> Sequence[Candidate]:
        """Best first. In mode sparse by the words alone, since the model takes no part."""
        values = excluded_values(request)
        phrases = [each for each in request.exclude if each not in values]
        if not phrases or not candidates:
            return candidates
        about = named(candidates, phrases)
        if request.mode is not SearchMode.SPARSE:
            most = max(EXCLUSION_CANDIDATES, 2 * request.limit)
            about[:most] = np.maximum(about[:most], self._about(candidates[:most], phrases, collection))
        return lowered(candidates, phrases, about)

    def _about(self, candidates: Sequence[Candidate], phrases: Sequence[str], collection: Collection) -> np.ndarray:
        """(n, P)"""
        ids = [each.ranked.point.id for each in candidates]
        present, vectors = self._index.vectors(collection.active_index, ids)  # others were deleted since
        found = np.zeros((len(ids), len(phrases)))
        if len(present):
            there = [ids.index(each) for each in present]
            found[there] = aboutness(*self._reader.nearness(vectors, phrases, collection=collection))
        return found


def aboutness(cosines: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """(n, P) shares of a score, 0 to 1. cosines of candidates and phrases (n, P), margins likewise."""
    deviations = np.maximum(cosines.std(axis=0), _LEAST_DEVIATION)
    standing_out = (cosines - cosines.mean(axis=0)) / deviations
    share = np.clip((standing_out - ABOUT_FROM) / (ABOUT_FULLY - ABOUT_FROM), 0.0, 1.0)
    return np.where(margins >= LEAST_MARGIN, share, 0.0)


def named(candidates: Sequence[Candidate], phrases: Sequence[str]) -> np.ndarray:
    """(n, P): NAMED where a passage has all words of a phrase, whatever their endings."""
    wanted = [set(query_vector(phrase).indices) for phrase in phrases]
    held = [set(document_vector(embedded_text_of(each.ranked.point.payload)).indices) for each in candidates]
    return np.array([[NAMED if words and words <= own else 0.0 for words in wanted] for own in held])


def lowered(candidates: Sequence[Candidate], phrases: Sequence[str], about: np.ndarray) -> Sequence[Candidate]:
    """about: (n, P), of which the greatest counts. What is equal keeps its order."""
    changed = []
    for candidate, shares in zip(candidates, about, strict=True):
        share, point = float(shares.max()), candidate.ranked.point
        if share > 0:
            point = replace(point, score=point.score - share * abs(point.score))
            ranked = replace(candidate.ranked, point=point)
            candidate = replace(candidate, ranked=ranked, excluded=phrases[int(shares.argmax())])
        changed.append(candidate)
    return sorted(changed, key=lambda each: -each.ranked.point.score)


def told_exclusions(
    negated: Negated, candidates: Sequence[Candidate], values: ValueSummary | None
) -> tuple[Exclusion, ...]:
    """What became of each phrase; those that are only offered come last."""
    named_as = excluded_values(negated.request)
    counts = {} if values is None else {each.name: each.count for each in values.counts}
    told = []
    for phrase in negated.request.exclude:
        value = named_as.get(phrase)
        effect = ExclusionEffect.RANK if value is None else ExclusionEffect.VALUE
        lower = sum(each.excluded == phrase for each in candidates)
        passages = lower if value is None else counts.get(value, 0)
        told.append(Exclusion(phrase, effect, phrase in negated.taken, value, passages))
    offered = (Exclusion(each, ExclusionEffect.OFFERED, is_detected=True) for each in negated.offered)
    return (*told, *offered)
