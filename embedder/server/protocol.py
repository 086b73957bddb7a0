"""What the routes ask for vectors: an engine in this process, or a server elsewhere. Knows neither torch nor HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np

# Of every answer with vectors: which model gave them, how many and how long they are, what was read of the texts.
FINGERPRINT_HEADER = "x-gircse-fingerprint"
SHAPE_HEADER = "x-gircse-shape"
TOKENS_HEADER = "x-gircse-tokens"
CUT_HEADER = "x-gircse-truncated-texts"


class InputType(StrEnum):
    """The role of texts: it decides about the instruction and the steps that they get by default."""

    QUERY = "query"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a client must know to use a model as if it were its own."""

    name: str
    fingerprint: str
    dimension: int
    max_length: int  # tokens of a prompt; what is longer is cut
    max_steps: int
    default_query_instruction: str
    default_query_steps: int
    default_document_instruction: str
    default_document_steps: int


@dataclass(frozen=True, slots=True)
class EmbedTask:
    """None: the model's default. "": no instruction."""

    texts: tuple[str, ...]
    input_type: InputType
    instruction: str | None = None
    steps: int | None = None
    is_bulk: bool | None = None  # wait behind queries, or among them; None: as few and short as the texts are
    may_cut: bool = True  # else a text that is longer than the model reads is refused


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """vectors (n, dimension) float32, L2-normalised, in the order of the texts."""

    vectors: np.ndarray
    tokens: int  # that the model read
    truncated: int  # which were longer than it reads
    fingerprint: str


@dataclass(frozen=True, slots=True)
class RefineTask:
    text: str
    instruction: str | None = None
    steps: int | None = None
    token_bias: Mapping[str, float] = field(default_factory=dict)
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class Word:
    token: str
    probability: float


@dataclass(frozen=True, slots=True)
class Step:
    """`step` counts from 1. `remaining`, 1 - cos(z_k, z_K), is known after the last one."""

    step: int
    tokens: tuple[Word, ...]
    remaining: float = 0.0


@dataclass(frozen=True, slots=True)
class Refined:
    instruction: str
    steps: int
    refinement: tuple[Step, ...]
    vector: tuple[float, ...]
    fingerprint: str


OnStep = Callable[[Step], None]


class EmbeddingSource(Protocol):
    """Raises RefusedError. Whoever is cancelled while waiting has its texts not computed."""

    async def facts(self) -> ModelFacts: ...

    async def embed(self, task: EmbedTask) -> Embedded: ...


class RefiningSource(EmbeddingSource, Protocol):
    async def refine(self, task: RefineTask, *, on_step: OnStep | None = None) -> Refined:
        """`on_step` is called in the event loop, as each step is there."""
        ...
