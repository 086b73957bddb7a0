"""Request and response schemas. Descriptions mark the fields that OpenAI does not have."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, StrictInt, StrictStr

from embedder.refinement_steps import MAX_BIAS, MAX_BIASED_WORDS, MAX_INSTRUCTION_CHARACTERS
from embedder.server.lenient import Lenient
from embedder.server.protocol import InputType

Bias = Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS, allow_inf_nan=False)]
Instruction = Annotated[str | None, Field(max_length=MAX_INSTRUCTION_CHARACTERS)]


def _check_input(given: Any) -> Any:
    """Reports only the first invalid entry: listing all, in all union branches, would take more memory than the
    input."""
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        raise ValueError(f"give a text or a list of texts, not {type(given).__name__}")
    for index, entry in enumerate(given):
        if type(entry) is not type(given[0]) or not (type(entry) in (str, int) or _is_ids(entry)):
            raise ValueError(f"entry {index} of {len(given)} is {type(entry).__name__}; give texts")
        if isinstance(entry, str):
            _check_unicode(entry, index)
    return given


def _check_unicode(text: str, index: int) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"entry {index} holds a lone surrogate at character {error.start}") from None


def _is_ids(entry: object) -> bool:
    return isinstance(entry, list) and all(type(each) is int for each in entry)


Texts = Annotated[list[StrictStr], FailFast()]


class EmbeddingQuestion(Lenient):
    """OpenAI's request, with role, instruction and steps."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"model": "gircse-small", "input": ["The card has not arrived."], "input_type": "query"}]
        },
    )

    input: Annotated[str | list[str] | list[int] | list[list[int]], BeforeValidator(_check_input)] = Field(
        description="A text, or several. Token ids are refused: they belong to another model's tokenizer."
    )
    model: str = Field(description="The name from GET /v1/models.", max_length=1000)
    encoding_format: Literal["float", "base64"] = Field(
        default="float", description="base64: the vector as little-endian float32."
    )
    dimensions: StrictInt | None = Field(
        default=None, ge=1, description="Keep this many leading numbers and normalise again."
    )
    user: str | None = Field(default=None, description="Accepted and ignored.")
    input_type: InputType | None = Field(
        default=None, description="Not OpenAI's: query or document. Default: set by the operator, else document."
    )
    instruction: Instruction = Field(
        default=None, description="Not OpenAI's: the instruction. Default: the model's. Empty: none."
    )
    steps: StrictInt | None = Field(
        default=None,
        ge=0,
        description="Not OpenAI's: refinement steps. Default: the model's. 0: the base model's own vector.",
    )
    truncate: bool = Field(
        default=True, description="Not OpenAI's: truncate texts that exceed the model's limit; false: refuse them."
    )


class TeiEmbeddingQuestion(Lenient):
    """The request of text-embeddings-inference, with instruction and steps."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"inputs": ["The card has not arrived."], "prompt_name": "query"}]},
    )

    WITHOUT_EFFECT: ClassVar[frozenset[str]] = frozenset({"truncation_direction"})

    inputs: Annotated[str | list[str] | list[int] | list[list[int]], BeforeValidator(_check_input)] = Field(
        description="A text, or several. Token ids are refused: they belong to another model's tokenizer."
    )
    prompt_name: InputType | None = Field(
        default=None, description="query or document. Default: set by the operator, else document."
    )
    truncate: bool | None = Field(
        default=None, description="false: refuse texts over the model's limit. Default: truncate them."
    )
    truncation_direction: str | None = Field(
        default=None, max_length=100, description="No effect; texts are truncated at their end."
    )
    normalize: bool | None = Field(default=None, description="false has no effect: vectors always have length 1.")
    dimensions: StrictInt | None = Field(
        default=None, ge=1, description="Keep this many leading numbers and normalise again."
    )
    instruction: Instruction = Field(
        default=None, description="Extension of TEI's API: the instruction. Default: the model's. Empty: none."
    )
    steps: StrictInt | None = Field(
        default=None,
        ge=0,
        description="Extension of TEI's API: refinement steps. Default: the model's. 0: the base model's own vector.",
    )

    def ignored(self) -> set[str]:
        return super().ignored() | ({"normalize"} if self.normalize is False else set())


class EmbeddingRow(BaseModel):
    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    prompt_tokens: int = Field(description="Tokens that the model read, including instructions.")
    total_tokens: int


class EmbeddingAnswer(BaseModel):
    object: Literal["list"] = "list"
    data: list[EmbeddingRow]
    model: str
    usage: Usage


class ModelRow(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelRow]


class EmbedQuestion(BaseModel):
    """Used by the application's own client; the response is binary."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"texts": ["The card has not arrived."], "input_type": "document"}]},
    )

    texts: Texts = Field(min_length=1)
    input_type: InputType
    instruction: Instruction = None
    steps: StrictInt | None = Field(default=None, ge=0)
    is_bulk: bool | None = Field(
        default=None,
        description="Queue behind queries (true) or among them (false). Default: by number and length of the texts.",
    )
    truncate: bool = Field(default=True, description="Truncate texts over the model's limit; false: refuse them.")
    every_step: bool = Field(
        default=False, description="Return the vectors after every step; the shape is then texts, steps, dimension."
    )


class RefineServerQuestion(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "text": "I still haven't received my new card",
                    "instruction": "Identify the feeling that the message expresses",
                    "token_bias": {"delivery": 2},
                }
            ]
        },
    )

    text: StrictStr = Field(examples=["I still haven't received my new card"])
    instruction: Instruction = Field(default=None, description="Default: the model's. Empty: none.")
    steps: StrictInt | None = Field(
        default=None, ge=0, description="Refinement steps. Default: the model's. 0: the base model's vector."
    )
    token_bias: dict[str, Bias] = Field(
        default_factory=dict, max_length=MAX_BIASED_WORDS, description="Numbers added to the logits of words."
    )
    tolerance: float | None = Field(
        default=None,
        ge=0,
        le=2,
        allow_inf_nan=False,
        description="Stop once a step moves the vector by this much (1 - cosine) or less.",
    )
    stream: bool = Field(default=False, description="Stream each step as a server-sent event.")


class SoftTokenAnswer(BaseModel):
    model_config = ConfigDict(from_attributes=True)
    token: str
    probability: float


class StepAnswer(BaseModel):
    model_config = ConfigDict(from_attributes=True)
    step: int
    tokens: list[SoftTokenAnswer]
    remaining: float = Field(description="1 - cosine between the vector after this step and the final one.")


class RefinedAnswer(BaseModel):
    model_config = ConfigDict(from_attributes=True)
    instruction: str
    steps: int = Field(validation_alias="step_count")
    refinement: list[StepAnswer] = Field(validation_alias="steps")
    read_text: str = Field(
        default="", description="The sentences that the model read, if the instruction excluded some."
    )
    vector: Annotated[list[float], BeforeValidator(np.ndarray.tolist)]


class FactsAnswer(BaseModel):
    model_config = ConfigDict(from_attributes=True)
    name: str
    fingerprint: str
    dimension: int
    max_length: int
    min_steps: int
    max_steps: int
    default_query_instruction: str
    default_query_steps: int
    default_document_instruction: str
    default_document_steps: int
    card: str | None = Field(default=None, description="The model card in Markdown.")
    similarity: str = Field(
        default="cosine", description="max_sim: documents have one vector per step, and the best one counts."
    )
