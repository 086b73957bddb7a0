"""POST /v1/rerank: texts of the caller's own ranked for a query, in the shape that Cohere's and Jina's clients know."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from app.api.base_schemas import Answer, Posted
from app.ports.services import Search
from app.search.text_reranking import MAX_DOCUMENTS
from app.search.value_syntax import MAX_VALUES, parse_values


class RerankQuestion(Posted):
    query: str = Field(examples=["I still haven't received my new card"])
    documents: list[str] = Field(
        min_length=1,
        max_length=MAX_DOCUMENTS,
        examples=[["My card has not come.", "How do I close my account?"]],
    )
    instruction: str | None = Field(
        default=None,
        description="Not Cohere's: how to look at query and documents. Left out: the model's own. Empty: none.",
        examples=["Identify the feeling that the message expresses"],
    )
    values: list[str] = Field(
        default_factory=list,
        max_length=MAX_VALUES,
        description="Not Cohere's: values that the instruction tells apart, as `name` or `name = synonym, synonym`.",
    )
    top_n: int | None = Field(default=None, ge=1, description="Only the best so many. Left out: all.")
    return_documents: bool = Field(default=False, description="Give the texts back with their scores.")
    model: str | None = Field(default=None, max_length=1000, description="Taken, and not looked at.")


class RerankedTextAnswer(Answer):
    text: str


class RerankResultAnswer(Answer):
    index: int = Field(description="Of the document in the request, from 0.")
    relevance_score: float = Field(description="-1 to 1, the higher the better.")
    document: RerankedTextAnswer | None = Field(default=None, description="Where `return_documents` asks for it.")


class RerankAnswer(Answer):
    results: list[RerankResultAnswer] = Field(description="The best first.")


def rerank_routes(service: Search) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["search"])

    @routes.post("/rerank", response_model_exclude_none=True)
    def rerank(question: RerankQuestion) -> RerankAnswer:
        """Texts ranked for a query under an instruction, by whatever re-ranks searches here, and by values if it names
        some."""
        scores = service.rerank_texts(
            question.query,
            question.documents,
            instruction=question.instruction,
            values=parse_values(question.values),
        )
        order = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
        return RerankAnswer(results=[_result(question, index, scores[index]) for index in order[: question.top_n]])

    return routes


def _result(question: RerankQuestion, index: int, score: float) -> RerankResultAnswer:
    text = RerankedTextAnswer(text=question.documents[index]) if question.return_documents else None
    return RerankResultAnswer(index=index, relevance_score=score, document=text)
