"""Streams a search in stages: a first ranking with few steps, one with all steps, then re-ranking, then highlights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from app.ports.services import Search
from app.search.request_checks import check_rerank
from app.types.search import SearchMode, SearchRequest, SearchResult

FIRST_STEPS = 2  # for the first ranking, shown while the rest is computed
LONG_STEPS = 8  # up to so many steps there is no first ranking: all steps together take less time than an extra search


class StageName(StrEnum):
    FIRST = "first"
    RANKED = "ranked"
    RERANKED = "reranked"
    HIGHLIGHTED = "explained"


@dataclass(frozen=True, slots=True)
class Stage:
    name: StageName
    result: SearchResult


def search_in_stages(service: Search, request: SearchRequest, *, steps: int, highlight: bool = True) -> Iterator[Stage]:
    """Yields the stages; the last one has the complete result. steps: number that the request will take, with defaults
    resolved."""
    check_rerank(request.rerank)
    plain = replace(request, rerank=0)
    if request.mode is not SearchMode.SPARSE and steps > LONG_STEPS:
        yield Stage(StageName.FIRST, service.search(replace(plain, steps=FIRST_STEPS), highlight=False))
    ranked = result = service.search(plain, highlight=False)
    yield Stage(StageName.RANKED, result)
    rerank = result.default_rerank if request.rerank is None else request.rerank
    if result.hits and rerank:
        result = service.search(replace(request, rerank=rerank), highlight=False)
        if set(result.notes) - set(ranked.notes) or any(hit.rerank_score is not None for hit in result.hits):
            yield Stage(StageName.RERANKED, result)
    if highlight and result.hits:
        yield Stage(StageName.HIGHLIGHTED, service.highlight(result))
