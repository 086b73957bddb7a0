"""What searches, refinements and highlights look like over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Protocol

from pydantic import BeforeValidator, Field

from app.api.base_schemas import Answer, Posted
from app.search.judgements import MAX_NAME_CHARACTERS
from app.search.value_syntax import MAX_VALUES
from app.types.defaults import DEFAULT_COLLECTION
from app.types.documents import ChunkKind, MetadataValue
from app.types.lens_indexes import LensIndexState
from app.types.proposals import MAX_INSTRUCTION_CHARACTERS, ProposalSource
from app.types.search import (
    DEFAULT_MODE,
    MAX_EXCLUSION_CHARACTERS,
    MAX_EXCLUSIONS,
    MAX_FEEDBACK,
    MAX_LIMIT,
    MAX_RERANK,
    ExclusionEffect,
    Leg,
    Match,
    SearchMode,
    SearchRequest,
)
from app.types.searches import MAX_SEARCH_NAME_CHARACTERS
from app.types.values import LensValue, ValueScope
from embedder.refinement_steps import MAX_BIAS

Bias = Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS, allow_inf_nan=False)]


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


class SearchQuestion(Posted):
    query: str = Field(examples=["I still haven't received my new card"])
    collection: str = Field(
        default=DEFAULT_COLLECTION,
        description="Where to look. `*`: in all collections of the model in use that the caller may see.",
        examples=["sample"],
    )
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
    token_bias: dict[str, Bias] = Field(
        default_factory=dict,
        description="Word → how much more passages are to be about it (below 0: less); from 5 on, either way, in full.",
    )
    mode: SearchMode = Field(
        default=DEFAULT_MODE, description="By vectors and words (hybrid), by one vector (dense), or by words."
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
    per_document: int | None = Field(
        default=None, ge=1, description="At most so many passages of one document. Left out: any number.", examples=[1]
    )
    exclude: list[Annotated[str, Field(min_length=1, max_length=MAX_EXCLUSION_CHARACTERS)]] = Field(
        default_factory=list,
        max_length=MAX_EXCLUSIONS,
        description="Phrases that the hits should not be about: passages about one rank lower; where it is one of the "
        "values, passages of that are left out.",
        examples=[["New York"]],
    )
    detect_negation: bool = Field(
        default=True,
        description="Read “jazz, not about New York” as jazz, with New York among `exclude`, which `exclusions` of the "
        "answer tell. False: the query is taken as it is written.",
    )
    prefer_prose: bool = Field(
        default=True,
        description="Tables of numbers and references count less (`chunk.kind`), unless the query asks for such.",
    )
    fold_duplicates: bool = Field(
        default=True, description="Near-identical passages go with the best of them, as its `duplicates`."
    )
    diversity: float = Field(
        default=0,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Maximal marginal relevance: 0 ranks by relevance alone, 1 by being unlike what ranks above.",
        examples=[0.3],
    )
    explain: bool = Field(default=True, description="Find the best sentence of every hit; costs time.")

    def as_request(self, instruction: str | None, values: tuple[LensValue, ...]) -> SearchRequest:
        """`instruction` and `values` are those that its lens has, where it names one."""
        return SearchRequest(
            query=self.query,
            collection=self.collection,
            instruction=instruction,
            steps=self.steps,
            limit=self.limit,
            filters=self.filters,
            token_bias=self.token_bias,
            mode=self.mode,
            like=tuple(self.like),
            unlike=tuple(self.unlike),
            values=values,
            value=self.value,
            rerank=self.rerank,
            per_document=self.per_document,
            exclude=tuple(self.exclude),
            detect_negation=self.detect_negation,
            prefer_prose=self.prefer_prose,
            fold_duplicates=self.fold_duplicates,
            diversity=self.diversity,
        )


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
