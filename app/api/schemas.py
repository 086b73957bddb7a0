"""What goes over HTTP. Answers are read from the core's dataclasses field by field."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.api.base_schemas import Answer, Posted
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


class NewText(Posted):
    collection: str = Field(default=DEFAULT_COLLECTION)
    text: str = Field(examples=["My card has not arrived yet."])
    title: str = Field(default="", max_length=1000, examples=["A message"])
    uri: str | None = Field(default=None, max_length=2000, description="Identity. Left out: named by its content.")
    metadata: dict[str, MetadataValue] = Field(default_factory=dict, examples=[{"language": "en"}])


class NewUrl(Posted):
    collection: str = Field(default=DEFAULT_COLLECTION)
    url: str = Field(max_length=2000, examples=["https://example.org/page"], description="Its identity, too.")
    title: str = Field(default="", max_length=1000)
    metadata: dict[str, MetadataValue] = Field(default_factory=dict)


class DocumentAnswer(Answer):
    id: str
    collection: str
    uri: str
    name: str = Field(description="As the file was called; what a URI cannot hold is percent-encoded in `uri`.")
    title: str
    media_type: str
    content_hash: str
    byte_count: int
    metadata: dict[str, MetadataValue]
    left_out: list[str] = Field(description="What of it could not be read: counts, places and reasons.")
    state: DocumentState
    error: str | None
    chunk_count: int
    created_at: datetime
    updated_at: datetime
    revision: int = Field(description="1, and one more each time that the document was replaced.")


class DocumentIds(Posted):
    document_ids: list[Annotated[str, Field(max_length=200)]] = Field(min_length=1, max_length=MAX_DOCUMENTS_AT_ONCE)


class DocumentDeletion(DocumentIds):
    delay_s: float = Field(
        default=0, ge=0, le=MAX_DELETE_DELAY_S, description="They can be restored until a worker does it, after this."
    )


class DocumentMove(DocumentIds):
    collection: str = Field(description="Where they go.")


class PageStartAnswer(Answer):
    page: int
    start: int = Field(description="Where the first passage that begins on it does.")


class TextAnswer(Answer):
    text: str
    start: int = Field(description="Characters of the whole text before these.")
    end: int
    total: int
    page_starts: list[PageStartAnswer]


class ChunkAnswer(Answer):
    id: str = Field(description="As `chunk.id` of a hit.")
    ordinal: int
    start: int = Field(description="Characters of the document's text before it.")
    end: int
    page: int | None


class DocumentCountsAnswer(Answer):
    total: int
    states: dict[DocumentState, int]


class FacetValueAnswer(Answer):
    value: str = Field(description="As a filter that finds it.")
    documents: int


class FacetsAnswer(Answer):
    collection: str
    facets: dict[str, list[FacetValueAnswer]] = Field(description="By key, those that most documents have first.")


class JobAnswer(Answer):
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


class JobCountsAnswer(Answer):
    total: int
    states: dict[JobState, int]


class RetriesAnswer(Answer):
    retried: int = Field(description="Jobs that are queued again.")


class PausesAnswer(Answer):
    collections: list[str] = Field(description="Those that were paused, or resumed.")


class SubmissionAnswer(Answer):
    document: DocumentAnswer
    job: JobAnswer | None = Field(description="Null when this very document is there already.")


class NewCollection(Posted):
    name: str = Field(examples=["letters"])
    document_instruction: str | None = None
    document_steps: int | None = Field(default=None, ge=0)
    chunk_tokens: int = CHUNK_TOKENS
    chunk_overlap: int = CHUNK_OVERLAP
    chunk_context: bool = Field(
        default=True, description="Passages are embedded with the title and headings above them."
    )
    chunk_structure: bool = Field(
        default=True, description="Passages keep to sections, complete pages and rows, and know their `kind`."
    )


class CollectionAnswer(Answer):
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


class IndexStatusAnswer(Answer):
    points: int
    indexed_vectors: int = Field(description="Dense ones in a graph, and all sparse ones.")
    segments: int
    activity: str | None = Field(description="What the optimiser is at.")
    awaits_optimizing: bool = Field(description="It was asked for, and stopped before it was done: ask again.")
    fault: str | None = Field(description="Why it could not be optimised.")


class NewFetches(Posted):
    urls: list[Annotated[str, Field(max_length=2000)]] = Field(
        min_length=1, max_length=MAX_URLS, examples=[["https://example.org/page"]]
    )


class FetchedUrl(Posted):
    url: str = Field(max_length=2000, examples=["https://example.org/page"])


class FetchAnswer(Answer):
    url: str
    state: FetchState
    error: str | None = Field(description="Why it failed.")


class NewReindex(Posted):
    document_instruction: str | None = Field(default=None, description="Left out: as it is. Empty: none.")
    document_steps: int | None = Field(default=None, ge=0)
    chunk_tokens: int | None = None
    chunk_overlap: int | None = None
    chunk_context: bool | None = None
    chunk_structure: bool | None = None
    restart: bool = Field(default=False, description="Drop what is half built.")


class ReindexAnswer(Answer):
    collection: str
    state: ReindexState
    done: int = Field(description="Documents that are in the index that is being built.")
    total: int
    error: str | None
    unreadable: int
    contract: dict[str, str | int | bool] = Field(description="What the index is, or was, built with.")
    can_roll_back: bool


class NewLens(Posted):
    name: str = Field(max_length=MAX_NAME_CHARACTERS, examples=["same feeling"])
    query_instruction: str = Field(examples=["Identify the feeling that the message expresses"])
    document_instruction: str | None = None
    note: str = Field(default="", max_length=MAX_NOTE_CHARACTERS)
    values: list[str] = Field(
        default_factory=list, max_length=MAX_VALUES, description="That it tells apart: `name`, or `name = synonym, …`."
    )


class LensAnswer(Answer):
    name: str
    query_instruction: str
    document_instruction: str | None
    note: str
    values: list[str]


class NewJudgement(Posted):
    document_id: str
    query: str = Field(examples=["I still haven't received my new card"])
    instruction: str = Field(default="", description="Through which the query was seen; empty: none.")
    grade: int = Field(ge=0, le=BEST_GRADE, description="0: not at all, to 3: this is it.")


class JudgementAnswer(Answer):
    document_id: str
    query: str
    instruction: str
    grade: int
    judged_by: str
    judged_at: datetime


class ModelAnswer(Answer):
    """The model that answers, and what it can be asked for."""

    version: str = Field(description="Of gircse-search.")
    model_name: str
    fingerprint: str = Field(description="Vectors of different fingerprints must not be compared.")
    dimension: int
    query_instruction: str = Field(description="What a query gets that brings no instruction.")
    query_steps: int
    document_instruction: str
    document_steps: int
    min_steps: int = Field(description="0: the base model has a vector of its own, which follows no instruction.")
    max_steps: int


class HealthAnswer(Answer):
    status: str
    checks: dict[str, bool] = Field(default_factory=dict)
    damaged: dict[str, str] = Field(
        default_factory=dict,
        description="Collections whose index or files are damaged, and how. With access control their number alone.",
    )


class ProblemAnswer(Answer):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
