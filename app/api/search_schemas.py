"""What searches, refinements and highlights look like over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Protocol

from pydantic import BeforeValidator, Field

from app.api.base_schemas import Answer, Posted, with_options
from app.search.judgements import MAX_NAME_CHARACTERS
from app.types.defaults import DEFAULT_COLLECTION
from app.types.documents import ChunkKind, MetadataValue
from app.types.lens_indexes import LensIndexState
from app.types.proposals import MAX_INSTRUCTION_CHARACTERS, ProposalSource
from app.types.search import SEARCH_OPTIONS, Bias, ExclusionEffect, Leg, Match, SearchMode
from app.types.searches import MAX_SEARCH_NAME_CHARACTERS
from app.types.values import ValueScope


class _Array(Protocol):
    def tolist(self) -> list[float]: ...


def _numbers_of(vector: _Array) -> list[float]:
    return vector.tolist()


class RefineQuestion(Posted):
    text: str = Field(examples=["I still haven't received my new card"])
    instruction: str | None = Field(default=None, description="Left out: the model's own. Empty: none.")
    steps: int | None = Field(
        default=None, ge=0, description="Refinement steps. Left out: the model's own. 0: the base model's vector."
    )
    token_bias: dict[str, Bias] = Field(default_factory=dict, description="Word → number added to its logits.")


@with_options(SEARCH_OPTIONS)
class SearchQuestion(Posted):
    """A request as it is written, and what only HTTP has."""

    explain: bool = Field(default=True, description="Find the best sentence of every hit; costs time.")


class NewSavedSearch(Posted):
    name: str = Field(max_length=MAX_SEARCH_NAME_CHARACTERS, examples=["Late cards"])
    request: SearchQuestion


class SavedSearchAnswer(Answer):
    id: str
    name: str
    request: dict[str, Any] = Field(description="As `POST /api/v1/search` takes it.")
    created_at: datetime


class PastSearchAnswer(Answer):
    id: str
    request: dict[str, Any] = Field(description="As `POST /api/v1/search` takes it.")
    asked_at: datetime


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
    read_text: str = Field(
        default="", description="What of the text was read, where the instruction left sentences out."
    )
    vector: Annotated[list[float], BeforeValidator(_numbers_of)]


class HitDocumentAnswer(Answer):
    id: str
    title: str
    uri: str
    metadata: dict[str, MetadataValue]
    collection: str


class HitChunkAnswer(Answer):
    id: str
    text: str
    start: int
    end: int
    page: int | None = Field(description="Of the sentence `why`; of the passage's beginning where none is known.")
    context: str = Field(description="The title and the headings above it, as they were embedded with it.")
    kind: ChunkKind = Field(description="table: of numbers. references: a bibliography. navigation: a menu.")
    is_damaged: bool = Field(description="Its stored text is not what was embedded; `notes` say what mends it.")


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
    passages: int = Field(description="How many passages were counted.")
    scope: ValueScope = Field(
        description="candidates: counted are those that the search found first. collection: all that the filters "
        "leave, by a lens index."
    )


class NearDuplicateAnswer(Answer):
    document: HitDocumentAnswer
    chunk: HitChunkAnswer


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
    match: Match | None = Field(
        description="How well it answers, on one scale for all modes and collections: a weak match is no nearer than "
        "what off-topic queries find. Null without `explain`, under an instruction, and in mode sparse where the "
        "model is away."
    )
    excluded: str | None = Field(description="The excluded phrase that it is most about, for which it ranks lower.")
    duplicates: list[NearDuplicateAnswer] = Field(description="Near-identical passages, which would rank below it.")


class ExclusionAnswer(Answer):
    phrase: str
    effect: ExclusionEffect = Field(
        description="rank: passages about it rank lower. value: it is a value, of which no passage is shown. offered: "
        "nothing, since “without X” may mean it or not; give it as `exclude` where it does."
    )
    is_detected: bool = Field(description="Whether the query said so, and not `exclude`.")
    value: str | None = Field(description="The value that it is.")
    passages: int = Field(description="How many of the candidates were left out, or rank lower.")


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
    match: Match | None = Field(description="Of the hit that answers best; where it is weak, nothing here may answer.")
    exclusions: list[ExclusionAnswer] = Field(description="What the hits should not be about, and what became of it.")
    searched: str = Field(description="What was searched for: the query, without what it negates.")
    read_text: str = Field(description="What of that was read, where the instruction left sentences out.")


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


class ProposalQuestion(Posted):
    instruction: str = Field(
        min_length=1, max_length=MAX_INSTRUCTION_CHARACTERS, examples=["Which continent is it about?"]
    )
    collection: str = Field(default=DEFAULT_COLLECTION, examples=["sample"])


class ProposalAnswer(Answer):
    values: list[str] = Field(description="As a search or a lens takes them: `name` or `name = synonym, synonym`.")
    source: ProposalSource = Field(
        description="lens: saved ones and those of the product. bank: aspects that come with it. metadata: of the "
        "collection's documents. texts: the model's soft tokens on texts of the collection."
    )
    name: str = Field(description="Of the lens, the aspect or the metadata key; empty for texts.")
    similarity: float | None = Field(
        description="Cosine of the instruction and the wordings nearest to it; null for texts."
    )
    fitting: int = Field(description="How many of the texts fit one of the values.")
    texts: int = Field(description="How many texts of the collection were looked at.")


class ProposalsAnswer(Answer):
    proposals: list[ProposalAnswer] = Field(description="At most three, best first.")


class NewLensIndex(Posted):
    lens: str = Field(max_length=MAX_NAME_CHARACTERS, description="One with values.", examples=["Same place"])


class LensIndexAnswer(Answer):
    collection: str
    lens: str
    values: list[str]
    state: LensIndexState = Field(
        description="ready: searches with these values use it. stale: the lens has other values now, or its job was "
        "cancelled; queue it again."
    )
    progress: float
    chunks: int = Field(description="That had a label when it was built.")
    bytes: int = Field(description="About what their labels take in the vector index.")
    seconds: float = Field(description="That building took.")
    created_at: datetime
    built_at: datetime | None
    error: str | None
    job_id: str | None
