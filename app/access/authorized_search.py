"""Searches, each authorized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from app.access.authorizer import Authorizer
from app.ports.services import Search
from app.types.access import Role
from app.types.search import ALL_COLLECTIONS, SearchRequest, SearchResult
from app.types.values import LensValue
from embedder.refinement import Refinement

READER = Role.READER


class AuthorizedSearch:
    def __init__(self, search: Search, authorizer: Authorizer) -> None:
        self._search = search
        self._authorizer = authorizer

    def search(self, request: SearchRequest, *, highlight: bool = True) -> SearchResult:
        if request.collection == ALL_COLLECTIONS:
            request = replace(request, among=self._authorizer.visible_names())
            return self._search.search(request, highlight=highlight)
        with self._authorizer.require_access(READER, request.collection):
            return self._search.search(request, highlight=highlight)

    def highlight(self, result: SearchResult) -> SearchResult:
        names = {result.collection}
        if result.collection == ALL_COLLECTIONS:
            names = {hit.document.collection for hit in result.hits}
            result = replace(result, among=self._authorizer.visible_names())
        with self._authorizer.require_access(READER, *names):
            return self._search.highlight(result)

    def refine(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> Refinement:
        self._authorizer.require_role()
        return self._search.refine(text, instruction=instruction, steps=steps, token_bias=token_bias)

    def rerank_texts(
        self, query: str, texts: Sequence[str], *, instruction: str | None = None, values: Sequence[LensValue] = ()
    ) -> list[float]:
        self._authorizer.require_role()
        return self._search.rerank_texts(query, texts, instruction=instruction, values=values)
