"""Request and response models of searches and refinements."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from app.api.base_schemas import RequestBody, ResponseBody, showing, with_options
from app.search.judgements import MAX_NAME_CHARACTERS
from app.types.defaults import DEFAULT_COLLECTION
from app.types.lens_indexes import LensIndexState
from app.types.proposals import MAX_INSTRUCTION_CHARACTERS, ProposalSource
from app.types.search import (
    MAX_QUERY_CHARACTERS,
    SEARCH_OPTIONS,
    Bias,
    Exclusion,
    Highlight,
    Hit,
    HitChunk,
    HitDocument,
    LegRank,
    NearDuplicate,
    SearchResult,
)
from app.types.searches import MAX_SEARCH_NAME_CHARACTERS
from app.types.values import ValueCount, ValueReading, ValueSummary
from embedder.refinement_steps import MAX_BIASED_WORDS, RefinementStep

if TYPE_CHECKING:  # commands that need no vectors start without numpy
    import numpy as np


def _numbers_of(vector: np.ndarray) -> list[float]:
    numbers: list[float] = vector.tolist()
    return numbers


class RefineQuestion(RequestBody):
    text: str = Field(
        examples=["I still haven't received my new card"],
        json_schema_extra={"minLength": 1, "maxLength": MAX_QUERY_CHARACTERS},
    )
    instruction: str | None = Field(default=None, description="Omitted: the model's default. Empty: no instruction.")
    steps: int | None = Field(
        default=None, ge=0, description="Refinement steps. Omitted: the model's default. 0: the base model's vector."
    )
    token_bias: dict[str, Bias] = Field(
        default_factory=dict,
        description="Word → number added to its logits.",
        json_schema_extra={"maxProperties": MAX_BIASED_WORDS},
    )


@with_options(SEARCH_OPTIONS)
class SearchQuestion(RequestBody):
    """The options of a search, and one that only HTTP has."""

    explain: bool = Field(default=True, description="Find the best sentence of every hit. Takes time.")


class NewSavedSearch(RequestBody):
    name: str = Field(max_length=MAX_SEARCH_NAME_CHARACTERS, examples=["Late cards"])
    request: SearchQuestion


class NewSearchName(RequestBody):
    name: str = Field(max_length=MAX_SEARCH_NAME_CHARACTERS, examples=["Late cards"])


class SavedSearchAnswer(ResponseBody):
    id: str
    name: str
    request: dict[str, Any] = Field(description="A body of `POST /api/v1/search`.")
    created_at: datetime


class PastSearchAnswer(ResponseBody):
    id: str
    request: dict[str, Any] = Field(description="A body of `POST /api/v1/search`.")
    asked_at: datetime


class TokenAnswer(ResponseBody):
    token: str
    probability: float


@showing(RefinementStep)
class RefinementStepAnswer(ResponseBody):
    step: int
    tokens: list[TokenAnswer]
    remaining: float = Field(description="1 - cosine of the vector after this step and the final one.")


class RefinementAnswer(ResponseBody):
    instruction: str
    steps: int = Field(validation_alias="step_count")
    refinement: list[RefinementStepAnswer] = Field(validation_alias="steps")
    read_text: str = Field(
        default="", description="The part of the text that was encoded, if the instruction left sentences out."
    )
    vector: Annotated[list[float], BeforeValidator(_numbers_of)]


@showing(HitDocument)
class HitDocumentAnswer(ResponseBody):
    pass


@showing(HitChunk)
class HitChunkAnswer(ResponseBody):
    pass


@showing(Highlight)
class HighlightAnswer(ResponseBody):
    pass


@showing(LegRank)
class LegRankAnswer(ResponseBody):
    pass


@showing(ValueReading)
class ValueAnswer(ResponseBody):
    pass


@showing(ValueCount)
class ValueCountAnswer(ResponseBody):
    pass


@showing(ValueSummary)
class ValueSummaryAnswer(ResponseBody):
    pass


@showing(NearDuplicate)
class NearDuplicateAnswer(ResponseBody):
    pass


@showing(Hit)
class HitAnswer(ResponseBody):
    pass


@showing(Exclusion)
class ExclusionAnswer(ResponseBody):
    pass


@showing(SearchResult)
class SearchAnswer(ResponseBody):
    pass


class GroupTokenAnswer(ResponseBody):
    token: str
    weight: float = Field(description="Its probability, summed over the steps of the group.")
    is_stop_word: bool
    is_new: bool = Field(description="No earlier group holds it.")


class RefinementGroupAnswer(ResponseBody):
    first_step: int
    last_step: int
    tokens: list[GroupTokenAnswer] = Field(description="The heaviest first.")


class ReadingAnswer(ResponseBody):
    instruction: str
    steps: int
    settled_step: int | None
    groups: list[RefinementGroupAnswer]


class ProposalQuestion(RequestBody):
    instruction: str = Field(
        min_length=1, max_length=MAX_INSTRUCTION_CHARACTERS, examples=["Which continent is it about?"]
    )
    collection: str = Field(default=DEFAULT_COLLECTION, examples=["sample"])


class ProposalAnswer(ResponseBody):
    values: list[str] = Field(description="In the format of a search: `name` or `name = synonym, synonym`.")
    source: ProposalSource = Field(
        description="lens: saved ones and those of the product. bank: aspects that come with it. metadata: of the "
        "collection's documents. texts: the model's soft tokens on texts of the collection."
    )
    name: str = Field(description="Name of the lens or aspect, or the metadata key; empty for texts.")
    similarity: float | None = Field(
        description="Cosine of the instruction and the wordings nearest to it; null for texts."
    )
    fitting: int = Field(description="How many of the texts fit one of the values.")
    texts: int = Field(description="How many texts of the collection were looked at.")


class ProposalsAnswer(ResponseBody):
    proposals: list[ProposalAnswer] = Field(description="At most three, best first.")


class NewLensIndex(RequestBody):
    lens: str = Field(max_length=MAX_NAME_CHARACTERS, description="A lens with values.", examples=["Same place"])


class LensIndexAnswer(ResponseBody):
    collection: str
    lens: str
    values: list[str]
    state: LensIndexState = Field(
        description="ready: searches with these values use it. stale: the lens has other values now, or its job was "
        "cancelled; queue it again."
    )
    progress: float
    chunks: int = Field(description="Chunks that had a label when it was built.")
    bytes: int = Field(description="Approximate size of the labels in the vector index.")
    seconds: float = Field(description="Duration of the build.")
    created_at: datetime
    built_at: datetime | None
    error: str | None
    job_id: str | None
