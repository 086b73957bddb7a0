"""POST /api/v1/search, whole or in stages, and /api/v1/refine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from app.api.events import MEDIA_TYPE, described_events, event, event_response, wants
from app.api.search_schemas import ReadingAnswer, RefinementAnswer, RefineQuestion, SearchAnswer, SearchQuestion
from app.ports.catalog import LensesAndJudgements
from app.ports.services import Search
from app.search.export import search_csv, search_markdown
from app.search.questions import request_of
from app.search.soft_tokens import RefinementGroup, converged_step, group_refinement
from app.search.stages import search_in_stages
from embedder.refinement import Refinement

CSV, MARKDOWN = "text/csv", "text/markdown"

EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            MEDIA_TYPE: {
                "schema": described_events(
                    "A complete SearchAnswer, or problem details if the stream ended early.",
                    "first",
                    "ranked",
                    "reranked",
                    "explained",
                    "problem",
                ),
                "example": 'event: ranked\ndata: {"query": "my card", "hits": []}\n\n',
            },
            CSV: {"schema": {"type": "string"}, "example": "rank,score,title\r\n1,0.81,A card\r\n"},
            MARKDOWN: {"schema": {"type": "string"}, "example": "# my card\n\n## 1. A card\n"},
        }
    }
}


@dataclass(frozen=True, slots=True)
class Reading:
    instruction: str
    steps: int
    settled_step: int | None
    groups: tuple[RefinementGroup, ...]


def search_routes(service: Search, catalog: LensesAndJudgements, *, default_steps: int, max_steps: int) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["search"])

    @routes.post("/search", response_model=SearchAnswer, responses=EVENTS)
    def search(question: SearchQuestion, http: Request) -> object:
        """Finds the chunks of a collection nearest to a query under an instruction.

        With `Accept: text/event-stream` the results arrive in stages: `first` after a few refinement steps, `ranked`
        after all steps, `reranked` with `rerank` (`moved_from` is the rank before re-ranking), and `explained` with the
        best matching sentence of each hit. With `Accept: text/csv` the hits are a CSV table, with `text/markdown`
        Markdown.
        """
        request = request_of(dict(question), catalog)
        if wants(http, MEDIA_TYPE):
            steps = request.steps or default_steps
            staged_steps = steps if steps <= max_steps else 0  # no early stage for a request that will be rejected
            stages = search_in_stages(service, request, steps=staged_steps, highlight=question.explain)
            return event_response(event(stage.name, SearchAnswer.model_validate(stage.result)) for stage in stages)
        result = service.search(request, highlight=question.explain)
        if wants(http, CSV):
            # With a byte order mark: without it spreadsheets misread UTF-8.
            return Response(search_csv(result).encode("utf-8-sig"), media_type=f"{CSV}; charset=utf-8")
        return Response(search_markdown(result), media_type=MARKDOWN) if wants(http, MARKDOWN) else result

    @routes.post("/refine", response_model=RefinementAnswer)
    def refine(question: RefineQuestion) -> Refinement:
        """Embeds a query. Returns its vector and the most probable tokens of every refinement step."""
        return _refine(question)

    @routes.post("/refine/words", response_model=ReadingAnswer)
    def read_refinement(question: RefineQuestion) -> Reading:
        """How the model interpreted the query: the words of its refinement, without the vector.

        Words are summed within steps 1-5, 6-10 and 11-20; words that an earlier group lacks are marked as new.
        `settled_step` is the step at which the refinement has converged: more steps change almost nothing.
        """
        refinement = _refine(question)
        return Reading(
            refinement.instruction,
            refinement.step_count,
            converged_step(refinement.steps),
            group_refinement(refinement.steps),
        )

    def _refine(question: RefineQuestion) -> Refinement:
        return service.refine(
            question.text, instruction=question.instruction, steps=question.steps, token_bias=question.token_bias
        )

    return routes
