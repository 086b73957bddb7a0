"""Rerank routes as Cohere, Jina, Voyage, vLLM and text-embeddings-inference (TEI) have them: requests and responses.

Knows nothing of models: the embedding server and the application's API serve the same routes, each with its ranker.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Request, Response
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictInt,
    StrictStr,
    Tag,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticSerializationError, to_json

from embedder.refinement_steps import MAX_INSTRUCTION_CHARACTERS
from embedder.server.client_errors import COHERE, TEI
from embedder.server.lenient import Lenient, ignored_header
from embedder.text.relevance import MAX_VALUES

MAX_RERANKED = 1_000
MAX_QUERY_CHARACTERS = 100_000
MAX_RANK_FIELDS = 100

Document = str | dict[str, Any]


@dataclass(frozen=True, slots=True)
class RankTask:
    """Texts to rank. instruction: None means the model's default, "" none. may_cut: False refuses texts over the
    model's limit."""

    query: str
    texts: tuple[str, ...]
    instruction: str | None = None
    values: tuple[str, ...] = ()
    steps: int | None = None
    may_cut: bool = True


@dataclass(frozen=True, slots=True)
class Ranked:
    """The result of a `RankTask`. scores: one for each text, from -1 to 1. tokens: of query and texts. unused: fields
    of the task that this ranker cannot follow. headers: for the response."""

    scores: Sequence[float]
    model: str
    tokens: int
    unused: frozenset[str] = frozenset()
    headers: Mapping[str, str] = field(default_factory=dict)


Rank = Callable[[RankTask, Request], Awaitable[Ranked]]


def _check_query(given: Any) -> Any:
    if isinstance(given, str):
        if not given.strip():
            raise ValueError("the query is empty; write what you are looking for")
        _require_unicode(given, "the query")
    return given


def _check_entries(given: Any) -> Any:
    """Reports only the first invalid entry: a list of all would take more memory than the documents."""
    if not isinstance(given, list):
        raise ValueError(f"give a list of texts or objects, not {type(given).__name__}")
    for index, entry in enumerate(given):
        if not isinstance(entry, (str, dict)):
            raise ValueError(f"document {index} is {type(entry).__name__}; give a text, or an object with a `text`")
    return given


def _check_texts(texts: Sequence[str]) -> None:
    for index, text in enumerate(texts):
        if not text.strip():
            raise ValueError(f"document {index} is empty; leave it out")
        _require_unicode(text, f"document {index}")


def _require_json(documents: Sequence[Document]) -> None:
    """The response repeats the fields of objects. Raises ValueError for lone surrogates and deep nesting, which Python
    reads but cannot write."""
    for index, document in enumerate(documents):
        if not isinstance(document, str):
            try:
                to_json([{"results": [{"document": document}]}])  # as deep as in the response
            except PydanticSerializationError as error:
                raise ValueError(f"document {index} cannot be written as JSON ({error})") from None


def _require_unicode(text: str, name: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} holds a lone surrogate at character {error.start}") from None


def _text_of(document: Document, index: int, rank_fields: Sequence[str] | None) -> str:
    """The text of a document that is ranked. Raises ValueError if the object has none."""
    if isinstance(document, str):
        return document
    found = [document[name] for name in rank_fields or ("text",) if name in document]
    if not found or not all(isinstance(each, (str, int, float)) for each in found):
        wanted = f"none of the fields {', '.join(rank_fields)}" if rank_fields else "no field `text`"
        raise ValueError(
            f"document {index} has {wanted} with a text (it has: {', '.join(document)[:200]}). "
            "`rank_fields` names the fields to rank"
        )
    return "\n".join(str(each) for each in found)


Query = Annotated[StrictStr, BeforeValidator(_check_query)]
Documents = Annotated[list[Document], BeforeValidator(_check_entries)]


class RerankQuestion(Lenient):
    """The request of Cohere, Jina, Voyage and vLLM, with instruction and values."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "query": "I still haven't received my new card",
                    "documents": ["My card has not come.", {"text": "How do I close my account?"}],
                    "instruction": "Identify the problem that the message describes",
                    "top_n": 1,
                }
            ]
        }
    )

    WITHOUT_EFFECT: ClassVar[frozenset[str]] = frozenset({"max_tokens_per_doc", "max_chunks_per_doc", "priority"})
    TASK_FIELDS: ClassVar[Mapping[str, str]] = {"steps": "steps", "may_cut": "truncation"}

    query: Query = Field(max_length=MAX_QUERY_CHARACTERS, examples=["I still haven't received my new card"])
    rank_fields: list[StrictStr] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_RANK_FIELDS,
        description="Cohere v1: the fields of objects that are ranked, in this order. Default: `text`.",
    )
    documents: Documents = Field(
        min_length=1,
        max_length=MAX_RERANKED,
        description="Texts, or objects with a field `text` or those of `rank_fields`.",
        examples=[["My card has not come.", "How do I close my account?"]],
    )
    instruction: str | None = Field(
        default=None,
        max_length=MAX_INSTRUCTION_CHARACTERS,
        description="Extension of Cohere's API: the instruction for query and documents. Default: the model's own. "
        "Empty: none.",
        examples=["Identify the feeling that the message expresses"],
    )
    values: list[StrictStr] = Field(
        default_factory=list,
        max_length=MAX_VALUES,
        description="Extension of Cohere's API: values that the instruction distinguishes, as `name` or "
        "`name = synonym, synonym`.",
    )
    top_n: StrictInt | None = Field(default=None, ge=1, description="Number of results. Default: all.")
    top_k: StrictInt | None = Field(default=None, ge=1, description="Voyage's name of `top_n`.")
    steps: StrictInt | None = Field(
        default=None,
        ge=1,
        description="Extension of Cohere's API, of the embedding server: refinement steps for query and documents. "
        "Default: 1.",
    )
    return_documents: bool | None = Field(default=None, description="Return the documents with their scores.")
    truncation: bool | None = Field(
        default=None,
        description="Jina and Voyage: false refuses texts over the model's limit. Default: they are truncated.",
    )
    max_tokens_per_doc: int | None = Field(
        default=None, description="Cohere v2: no effect; documents are truncated at the model's limit."
    )
    max_chunks_per_doc: int | None = Field(default=None, description="Cohere v1: no effect.")
    priority: int | None = Field(default=None, description="Cohere v2: no effect.")
    model: str | None = Field(
        default=None, max_length=1000, description="Any name is accepted; the response names the model that ranked."
    )

    @field_validator("documents")
    @classmethod
    def _have_texts(cls, documents: list[Document], info: ValidationInfo) -> list[Document]:
        fields = info.data.get("rank_fields")
        _check_texts([_text_of(document, index, fields) for index, document in enumerate(documents)])
        _require_json(documents)
        return documents

    @field_validator("top_k")
    @classmethod
    def _agrees_with_top_n(cls, top_k: int | None, info: ValidationInfo) -> int | None:
        top_n = info.data.get("top_n")
        if None not in (top_n, top_k) and top_n != top_k:
            raise ValueError(f"top_n is {top_n} and top_k is {top_k}, but both mean the number of results")
        return top_k

    @property
    def result_count(self) -> int | None:
        return self.top_k if self.top_n is None else self.top_n

    def task(self) -> RankTask:
        return RankTask(
            self.query,
            tuple(_text_of(document, index, self.rank_fields) for index, document in enumerate(self.documents)),
            instruction=self.instruction,
            values=tuple(self.values),
            steps=self.steps,
            may_cut=self.truncation is not False,
        )


class TeiRerankQuestion(Lenient):
    """The request of text-embeddings-inference, with instruction and values."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "query": "I still haven't received my new card",
                    "texts": ["My card has not come.", "How do I close my account?"],
                    "return_text": True,
                }
            ]
        }
    )

    WITHOUT_EFFECT: ClassVar[frozenset[str]] = frozenset({"truncation_direction"})
    TASK_FIELDS: ClassVar[Mapping[str, str]] = {"may_cut": "truncate"}

    query: Query = Field(max_length=MAX_QUERY_CHARACTERS, examples=["I still haven't received my new card"])
    texts: list[StrictStr] = Field(
        min_length=1, max_length=MAX_RERANKED, examples=[["My card has not come.", "How do I close my account?"]]
    )
    raw_scores: bool | None = Field(
        default=None, description="true: scores from -1 to 1. Default: the same scores mapped to 0 to 1."
    )
    return_text: bool | None = Field(default=None, description="Return the texts with their scores.")
    truncate: bool | None = Field(
        default=None, description="false: refuse texts over the model's limit. Default: truncate them."
    )
    truncation_direction: str | None = Field(
        default=None, max_length=100, description="No effect; texts are truncated at their end."
    )
    instruction: str | None = Field(
        default=None,
        max_length=MAX_INSTRUCTION_CHARACTERS,
        description="Extension of TEI's API: the instruction for query and texts. Default: the model's own.",
    )
    values: list[StrictStr] = Field(
        default_factory=list,
        max_length=MAX_VALUES,
        description="Extension of TEI's API: values that the instruction distinguishes.",
    )

    @field_validator("texts")
    @classmethod
    def _have_words(cls, texts: list[str]) -> list[str]:
        _check_texts(texts)
        return texts

    def task(self) -> RankTask:
        return RankTask(
            self.query,
            tuple(self.texts),
            instruction=self.instruction,
            values=tuple(self.values),
            may_cut=self.truncate is not False,
        )


class RerankedTextAnswer(BaseModel):
    """The object that was sent. If it has no string as `text`, that is the ranked text."""

    model_config = ConfigDict(extra="allow")

    text: str


class RerankResultAnswer(BaseModel):
    index: int = Field(description="Position of the document in the request, from 0.")
    relevance_score: float = Field(description="From -1 to 1; higher is better.")
    document: RerankedTextAnswer | None = Field(default=None, description="Present with `return_documents`.")


class RerankUsageAnswer(BaseModel):
    prompt_tokens: int = Field(description="Tokens of query and documents.")
    total_tokens: int


class RerankApiVersionAnswer(BaseModel):
    version: str = Field(examples=["2"])


class RerankBilledUnitsAnswer(BaseModel):
    search_units: int = Field(description="1 for every request.")


class RerankTokensAnswer(BaseModel):
    input_tokens: int


class RerankMetaAnswer(BaseModel):
    """As in Cohere's responses."""

    api_version: RerankApiVersionAnswer
    billed_units: RerankBilledUnitsAnswer
    tokens: RerankTokensAnswer


class RerankAnswer(BaseModel):
    id: str
    model: str = Field(description="The model of this server.")
    results: list[RerankResultAnswer] = Field(description="Best first.")
    usage: RerankUsageAnswer
    meta: RerankMetaAnswer


class TeiRankAnswer(BaseModel):
    index: int = Field(description="Position of the text in the request, from 0.")
    score: float = Field(description="From 0 to 1, with `raw_scores` from -1 to 1; higher is better.")
    text: str | None = Field(default=None, description="Present with `return_text`.")


def _form_of(body: Any) -> str:
    has_texts = "texts" in body if isinstance(body, dict) else isinstance(body, TeiRerankQuestion)
    return TEI if has_texts else COHERE


AnyRerankQuestion = Annotated[
    Annotated[RerankQuestion, Tag(COHERE)] | Annotated[TeiRerankQuestion, Tag(TEI)], Discriminator(_form_of)
]


def rerank_routes(rank: Rank, **options: Any) -> APIRouter:
    """`POST /v1/rerank`, `/v2/rerank` and `/rerank`. options: of the router."""
    routes = APIRouter(tags=["rerank"], **options)

    @routes.post("/v1/rerank", response_model_exclude_none=True)
    async def rerank(question: RerankQuestion, request: Request, response: Response) -> RerankAnswer:
        """Ranks texts for a query, as Cohere v1, Jina and Voyage; the instruction applies to query and documents.

        `values` let the ranking prefer texts with the same value as the query.
        """
        return _answer(question, await _ranked(rank, question, request, response), version="1")

    @routes.post("/v2/rerank", response_model_exclude_none=True)
    async def rerank_as_cohere(question: RerankQuestion, request: Request, response: Response) -> RerankAnswer:
        """Ranks texts for a query, as Cohere v2 and vLLM; otherwise like `/v1/rerank`."""
        return _answer(question, await _ranked(rank, question, request, response), version="2")

    @routes.post("/rerank", response_model_exclude_none=True)
    async def rerank_as_tei(
        question: AnyRerankQuestion, request: Request, response: Response
    ) -> RerankAnswer | list[TeiRankAnswer]:
        """Ranks `texts` as text-embeddings-inference, or `documents` like `/v1/rerank`."""
        ranked = await _ranked(rank, question, request, response)
        if isinstance(question, RerankQuestion):
            return _answer(question, ranked, version="1")
        return [_tei_row(question, index, ranked.scores[index]) for index in _best(ranked.scores)]

    return routes


async def _ranked(
    rank: Rank, question: RerankQuestion | TeiRerankQuestion, request: Request, response: Response
) -> Ranked:
    ranked = await rank(question.task(), request)
    unused = (question.TASK_FIELDS.get(each) for each in ranked.unused)
    response.headers.update(ranked.headers)
    response.headers.update(ignored_header(question.ignored() | {name for name in unused if name is not None}))
    return ranked


def _best(scores: Sequence[float]) -> list[int]:
    """Positions by falling score; equal scores keep their order."""
    return sorted(range(len(scores)), key=lambda index: (-scores[index], index))


def _answer(question: RerankQuestion, ranked: Ranked, *, version: str) -> RerankAnswer:
    texts = question.task().texts
    results = [
        RerankResultAnswer(
            index=index,
            relevance_score=ranked.scores[index],
            document=_document(question.documents[index], texts[index]) if question.return_documents else None,
        )
        for index in _best(ranked.scores)[: question.result_count]
    ]
    return RerankAnswer(
        id=str(uuid.uuid4()),
        model=ranked.model,
        results=results,
        usage=RerankUsageAnswer(prompt_tokens=ranked.tokens, total_tokens=ranked.tokens),
        meta=RerankMetaAnswer(
            api_version=RerankApiVersionAnswer(version=version),
            billed_units=RerankBilledUnitsAnswer(search_units=1),
            tokens=RerankTokensAnswer(input_tokens=ranked.tokens),
        ),
    )


def _document(sent: Document, text: str) -> RerankedTextAnswer:
    fields = {} if isinstance(sent, str) else sent
    own = fields.get("text")
    return RerankedTextAnswer.model_validate({**fields, "text": own if isinstance(own, str) else text})


def _tei_row(question: TeiRerankQuestion, index: int, score: float) -> TeiRankAnswer:
    shown = score if question.raw_scores else (1 + score) / 2
    return TeiRankAnswer(index=index, score=shown, text=question.texts[index] if question.return_text else None)
