"""POST /v1/rerank: ranks the caller's texts for a query, in the format of Cohere's and Jina's clients."""

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
        description="Extension of Cohere's API: the instruction for query and documents. Default: the model's own. "
        "Empty: none.",
        examples=["Identify the feeling that the message expresses"],
    )
    values: list[str] = Field(
        default_factory=list,
        max_length=MAX_VALUES,
        description="Extension of Cohere's API: values that the instruction distinguishes, as `name` or "
        "`name = synonym, synonym`.",
    )
    top_n: int | None = Field(default=None, ge=1, description="Number of results. Default: all.")
    return_documents: bool = Field(default=False, description="Return the texts with their scores.")
    model: str | None = Field(default=None, max_length=1000, description="Ignored; accepted for compatibility.")


class RerankedTextAnswer(Answer):
    text: str


class RerankResultAnswer(Answer):
    index: int = Field(description="Position of the document in the request, from 0.")
    relevance_score: float = Field(description="From -1 to 1; higher is better.")
    document: RerankedTextAnswer | None = Field(default=None, description="Present with `return_documents`.")


class RerankAnswer(Answer):
    results: list[RerankResultAnswer] = Field(description="Best first.")


def rerank_routes(service: Search) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["search"])

    @routes.post("/rerank", response_model_exclude_none=True)
    def rerank(question: RerankQuestion) -> RerankAnswer:
        """Ranks texts for a query under an instruction, with the reranker of this server's searches.

        `values` let the ranking prefer texts with the same value as the query.
        """
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
