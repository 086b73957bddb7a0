"""POST /api/v1/search and /api/v1/refine."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.schemas import RefinementAnswer, RefineQuestion, SearchAnswer, SearchQuestion
from app.catalog_ports import Opinions
from app.lenses import instruction_through
from app.search import SearchService
from app.search_types import QueryEmbedding, SearchRequest, SearchResult


def search_routes(service: SearchService, opinions: Opinions) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["search"])

    @routes.post("/search", response_model=SearchAnswer)
    def search(question: SearchQuestion) -> SearchResult:
        """The nearest chunks of a collection to a query, seen through an instruction."""
        request = SearchRequest(
            query=question.query,
            collection=question.collection,
            instruction=instruction_through(opinions, question.lens, question.instruction),
            steps=question.steps,
            limit=question.limit,
            filters=question.filters,
            token_bias=question.token_bias,
            mode=question.mode,
            like=tuple(question.like),
            unlike=tuple(question.unlike),
        )
        return service.search(request, explain=question.explain)

    @routes.post("/refine", response_model=RefinementAnswer)
    def refine(question: RefineQuestion) -> QueryEmbedding:
        """The vector of a query and the tokens of every refinement step."""
        return service.refine(
            question.text, instruction=question.instruction, steps=question.steps, token_bias=question.token_bias
        )

    return routes
