"""What goes over HTTP. Answers are read from the core's dataclasses field by field."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from app.collections.fetching import MAX_URLS
from app.collections.library import CHUNK_OVERLAP, CHUNK_TOKENS, DEFAULT_COLLECTION
from app.search.judgements import BEST_GRADE, MAX_NAME_CHARACTERS, MAX_NOTE_CHARACTERS
from app.search.value_syntax import MAX_VALUES
from app.types.documents import DocumentState, JobKind, JobPriority, JobState, MetadataValue
from app.types.search import MAX_FEEDBACK, MAX_LIMIT, MAX_RERANK, Leg, SearchMode
from app.types.upkeep import FetchState, ReindexState
from embedder.refinement import MAX_BIAS

Bias = Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS, allow_inf_nan=False)]


class Posted(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class RefineQuestion(Posted):
    text: str = Field(examples=["I still haven't received my new card"])
    instruction: str | None = Field(default=None, description="Left out: the model's own. Empty: none.")
    steps: int | None = Field(
        default=None, ge=0, description="Refinement steps. Left out: the model's own. 0: the base model's vector."
    )
    token_bias: dict[str, Bias] = Field(default_factory=dict, description="Word → number added to its logits.")


class SearchQuestion(Posted):
    query: str = Field(examples=["I still haven't received my new card"])
    collection: str = Field(default=DEFAULT_COLLECTION, examples=["sample"])
    instruction: str | None = Field(
        default=None,
        description="How to look at the query. Left out: the model's own. Empty: none.",
        examples=["Identify the feeling that the message expresses"],
    )
    lens: str | None = Field(default=None, description="A saved lens, in place of an instruction.")
    steps: int | None = Field(
        default=None, ge=0, description="Refinement steps. Left out: the model's own. 0: the base model's vector."
    )
    limit: int = Field(default=10, ge=1, le=MAX_LIMIT)
    filters: dict[str, str] = Field(default_factory=dict, description="Document metadata that must be equal.")
    token_bias: dict[str, Bias] = Field(default_factory=dict, description="Word → number added to its logits.")
    mode: SearchMode = Field(
        default=SearchMode.HYBRID, description="By vectors and words (hybrid), by one vector (dense), or by words."
    )
    like: list[str] = Field(
        default_factory=list, max_length=MAX_FEEDBACK, description="Ids of chunks that the hits should resemble."
    )
    unlike: list[str] = Field(
        default_factory=list, max_length=MAX_FEEDBACK, description="Ids of chunks that they should not."
    )
    values: list[str] | None = Field(
        default=None,
        max_length=MAX_VALUES,
        description="Values that the instruction tells apart, each as `name` or as `name = synonym, synonym`: hits are "
        "ranked by being alike among them, too, and counted by value. Left out: those of the lens. Empty: none.",
        examples=[["Africa", "Asia", "Europe"]],
    )
    value: str | None = Field(default=None, description="Only passages of this value, or of `other`.")
    rerank: int | None = Field(
        default=None,
        ge=0,
        le=MAX_RERANK,
        description="Look at so many of the first candidates again, under the instruction on their side too. 0: none. "
        "Left out: GIRCSE_RERANK_CANDIDATES of a hybrid search with an instruction.",
        examples=[50],
    )
    explain: bool = Field(default=True, description="Find the best sentence of every hit; costs time.")


class TokenAnswer(Answer):
    token: str
    probability: float


class RefinementStepAnswer(Answer):
    step: int
    tokens: list[TokenAnswer]
    remaining: float = Field(description="1 - cosine of the vector after this step and the final one.")


class RefinementAnswer(Answer):
    instruction: str
    steps: int = Field(validation_alias="step_count")
    refinement: list[RefinementStepAnswer] = Field(validation_alias="steps")
    vector: Annotated[list[float], BeforeValidator(np.ndarray.tolist)]


class HitDocumentAnswer(Answer):
    id: str
    title: str
    uri: str
    metadata: dict[str, MetadataValue]


class HitChunkAnswer(Answer):
    id: str
    text: str
    start: int
    end: int
    page: int | None


class HighlightAnswer(Answer):
    start: int
    end: int
    score: float


class LegRankAnswer(Answer):
    leg: Leg = Field(description="dense: under the instruction. plain: by the base model. sparse: by the words.")
    rank: int
    score: float = Field(description="A cosine, or the BM25 of the leg sparse.")


class ValueAnswer(Answer):
    name: str = Field(description="`other` where none fits.")
    probability: float = Field(description="Of the most probable value.")
    similarity: float = Field(description="Cosine of the passage's distribution over the values and the query's.")


class ValueCountAnswer(Answer):
    name: str
    count: int
    probability: float | None = Field(description="For the query; null for `other`.")


class ValueSummaryAnswer(Answer):
    query: str = Field(description="The query's own value.")
    counts: list[ValueCountAnswer] = Field(description="In the order of the request, `other` last.")
    passages: int = Field(description="How many candidates were counted.")


class HitAnswer(Answer):
    rank: int
    score: float = Field(description="Cosine; BM25 in mode sparse; 0 to 1 in mode hybrid.")
    document: HitDocumentAnswer
    chunk: HitChunkAnswer
    why: HighlightAnswer | None
    legs: list[LegRankAnswer] = Field(description="Where each leg of a hybrid search that found it had it.")
    value: ValueAnswer | None = Field(description="What the passage is among the values, where the request has some.")
    rerank_score: float | None = Field(description="Of the second look alone, where there was one.")
    moved_from: int | None = Field(description="The rank before the second look.")


class SearchAnswer(Answer):
    query: str
    instruction: str
    steps: int
    collection: str
    hits: list[HitAnswer]
    refinement: list[RefinementStepAnswer]
    timings_ms: dict[str, float]
    mode: SearchMode
    values: ValueSummaryAnswer | None = Field(description="Counts by value, where the request has some.")
    notes: list[str] = Field(description="What was asked for and could not be done, and why.")


class GroupTokenAnswer(Answer):
    token: str
    weight: float = Field(description="Its probability, summed over the steps of the group.")
    is_stop_word: bool
    is_new: bool = Field(description="No earlier group holds it.")


class RefinementGroupAnswer(Answer):
    first_step: int
    last_step: int
    tokens: list[GroupTokenAnswer] = Field(description="The heaviest first.")


class ReadingAnswer(Answer):
    instruction: str
    steps: int
    settled_step: int | None
    groups: list[RefinementGroupAnswer]


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
    title: str
    media_type: str
    content_hash: str
    byte_count: int
    metadata: dict[str, MetadataValue]
    state: DocumentState
    error: str | None
    chunk_count: int
    created_at: datetime
    updated_at: datetime


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


class CollectionAnswer(Answer):
    name: str
    fingerprint: str
    dimension: int
    document_instruction: str
    document_steps: int
    chunk_tokens: int
    chunk_overlap: int
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
    restart: bool = Field(default=False, description="Drop what is half built.")


class ReindexAnswer(Answer):
    collection: str
    state: ReindexState
    done: int = Field(description="Documents that are in the index that is being built.")
    total: int
    error: str | None
    unreadable: int
    contract: dict[str, str | int] = Field(description="What the index is, or was, built with.")
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


class ProblemAnswer(Answer):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
