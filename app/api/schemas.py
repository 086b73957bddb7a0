"""Request and response bodies of the HTTP API. Responses are built from the core's dataclasses field by field."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.api.base_schemas import RequestBody, ResponseBody
from app.search.judgements import BEST_GRADE, MAX_NAME_CHARACTERS, MAX_NOTE_CHARACTERS
from app.search.value_syntax import MAX_VALUES
from app.types.defaults import (
    CHUNK_OVERLAP,
    CHUNK_TOKENS,
    DEFAULT_COLLECTION,
    MAX_DELETE_DELAY_S,
    MAX_DOCUMENTS_AT_ONCE,
)
from app.types.documents import DocumentState, JobKind, JobPriority, JobState, MetadataValue
from app.types.upkeep import MAX_URLS, FetchState, ReindexState
from embedder.refinement_steps import MAX_BIAS

Bias = Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS, allow_inf_nan=False)]


class NewText(RequestBody):
    collection: str = Field(default=DEFAULT_COLLECTION)
    text: str = Field(examples=["My card has not arrived yet."])
    title: str = Field(default="", max_length=1000, examples=["A message"])
    uri: str | None = Field(
        default=None, max_length=2000, description="Identity of the document. Default: derived from the text."
    )
    metadata: dict[str, MetadataValue] = Field(default_factory=dict, examples=[{"language": "en"}])


class NewUrl(RequestBody):
    collection: str = Field(default=DEFAULT_COLLECTION)
    url: str = Field(
        max_length=2000, examples=["https://example.org/page"], description="Also the document's identity."
    )
    title: str = Field(default="", max_length=1000)
    metadata: dict[str, MetadataValue] = Field(default_factory=dict)


class DocumentAnswer(ResponseBody):
    id: str
    collection: str
    uri: str
    name: str = Field(description="Original file name. `uri` has it percent-encoded.")
    title: str
    media_type: str
    content_hash: str
    byte_count: int
    metadata: dict[str, MetadataValue]
    left_out: list[str] = Field(description="Parts that could not be read, with counts, places and reasons.")
    state: DocumentState
    error: str | None
    chunk_count: int
    created_at: datetime
    updated_at: datetime
    revision: int = Field(description="1, plus 1 for each replacement of the document.")


class DocumentIds(RequestBody):
    document_ids: list[Annotated[str, Field(max_length=200)]] = Field(min_length=1, max_length=MAX_DOCUMENTS_AT_ONCE)


class DocumentDeletion(DocumentIds):
    delay_s: float = Field(
        default=0,
        ge=0,
        le=MAX_DELETE_DELAY_S,
        description="Seconds until a worker may delete the documents. Until then they can be restored.",
    )


class DocumentMove(DocumentIds):
    collection: str = Field(description="Target collection.")


class PageStartAnswer(ResponseBody):
    page: int
    start: int = Field(description="First character of the first passage that begins on this page.")


class TextAnswer(ResponseBody):
    text: str
    start: int = Field(description="Position of `text` in the whole text, in characters.")
    end: int
    total: int
    page_starts: list[PageStartAnswer]


class ChunkAnswer(ResponseBody):
    id: str = Field(description="Same as `chunk.id` of a hit.")
    ordinal: int
    start: int = Field(description="Position in the document's text, in characters.")
    end: int
    page: int | None


class DocumentCountsAnswer(ResponseBody):
    total: int
    states: dict[DocumentState, int]


class FacetValueAnswer(ResponseBody):
    value: str = Field(description="The value as a filter takes it.")
    documents: int


class FacetsAnswer(ResponseBody):
    collection: str
    facets: dict[str, list[FacetValueAnswer]] = Field(description="Values by metadata key, most frequent first.")


class JobAnswer(ResponseBody):
    id: str
    kind: JobKind
    collection: str
    document_id: str
    state: JobState
    attempts: int
    progress: float
    error: str | None
    not_before: datetime
    created_at: datetime
    finished_at: datetime | None
    priority: JobPriority


class JobCountsAnswer(ResponseBody):
    total: int
    states: dict[JobState, int]


class RetriesAnswer(ResponseBody):
    retried: int = Field(description="Number of jobs queued again.")


class PausesAnswer(ResponseBody):
    collections: list[str] = Field(description="Collections that were paused or resumed.")


class SubmissionAnswer(ResponseBody):
    document: DocumentAnswer
    job: JobAnswer | None = Field(description="null if the identical document already exists.")


class NewCollection(RequestBody):
    name: str = Field(examples=["letters"])
    document_instruction: str | None = None
    document_steps: int | None = Field(default=None, ge=0)
    chunk_tokens: int = CHUNK_TOKENS
    chunk_overlap: int = CHUNK_OVERLAP
    chunk_context: bool = Field(default=True, description="Embed passages with the title and headings above them.")
    chunk_structure: bool = Field(
        default=True, description="Split at sections, page ends and rows, and detect the `kind` of each passage."
    )


class CollectionAnswer(ResponseBody):
    name: str
    fingerprint: str
    dimension: int
    document_instruction: str
    document_steps: int
    chunk_tokens: int
    chunk_overlap: int
    chunk_context: bool
    chunk_structure: bool
    is_paused: bool
    document_count: int
    chunk_count: int


class IndexStatusAnswer(ResponseBody):
    points: int
    indexed_vectors: int = Field(description="Dense vectors in the HNSW graph plus all sparse vectors.")
    segments: int
    activity: str | None = Field(description="Current step of the optimizer.")
    awaits_optimizing: bool = Field(description="A requested optimization stopped before its end: request it again.")
    fault: str | None = Field(description="Error of the last optimization.")


class NewFetches(RequestBody):
    urls: list[Annotated[str, Field(max_length=2000)]] = Field(
        min_length=1, max_length=MAX_URLS, examples=[["https://example.org/page"]]
    )


class FetchedUrl(RequestBody):
    url: str = Field(max_length=2000, examples=["https://example.org/page"])


class FetchAnswer(ResponseBody):
    url: str
    state: FetchState
    error: str | None = Field(description="Reason of the failure.")


class NewReindex(RequestBody):
    document_instruction: str | None = Field(default=None, description="Default: unchanged. Empty: none.")
    document_steps: int | None = Field(default=None, ge=0)
    chunk_tokens: int | None = None
    chunk_overlap: int | None = None
    chunk_context: bool | None = None
    chunk_structure: bool | None = None
    restart: bool = Field(default=False, description="Discard an unfinished index and start over.")


class ReindexAnswer(ResponseBody):
    collection: str
    state: ReindexState
    done: int = Field(description="Documents already in the new index.")
    total: int
    error: str | None
    unreadable: int
    contract: dict[str, str | int | bool] = Field(description="Settings of the new index, or of the last one built.")
    can_roll_back: bool


class NewLens(RequestBody):
    name: str = Field(max_length=MAX_NAME_CHARACTERS, examples=["same feeling"])
    query_instruction: str = Field(examples=["Identify the feeling that the message expresses"])
    document_instruction: str | None = None
    note: str = Field(default="", max_length=MAX_NOTE_CHARACTERS)
    values: list[str] = Field(
        default_factory=list,
        max_length=MAX_VALUES,
        description="Values that the lens distinguishes: `name` or `name = synonym, …`.",
    )


class LensAnswer(ResponseBody):
    name: str
    query_instruction: str
    document_instruction: str | None
    note: str
    values: list[str]


class NewJudgement(RequestBody):
    document_id: str
    query: str = Field(examples=["I still haven't received my new card"])
    instruction: str = Field(default="", description="Instruction of the search. Empty: none.")
    grade: int = Field(ge=0, le=BEST_GRADE, description="From 0 (irrelevant) to 3 (perfect match).")


class JudgementAnswer(ResponseBody):
    document_id: str
    query: str
    instruction: str
    grade: int
    judged_by: str
    judged_at: datetime


class ModelAnswer(ResponseBody):
    """The embedding model, its defaults and limits."""

    version: str = Field(description="Version of gircse-search.")
    model_name: str
    fingerprint: str = Field(description="Vectors of different fingerprints must not be compared.")
    dimension: int
    query_instruction: str = Field(description="Default instruction of queries.")
    query_steps: int
    document_instruction: str
    document_steps: int
    min_steps: int = Field(
        description="0: the model can also embed without refinement steps, ignoring the instruction."
    )
    max_steps: int


class HealthAnswer(ResponseBody):
    status: str
    checks: dict[str, bool] = Field(default_factory=dict)
    damaged: dict[str, str] = Field(
        default_factory=dict,
        description="Collections with damaged or missing data: what is wrong with their index or files. "
        "With access control only the number.",
    )


class ProblemAnswer(ResponseBody):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
