"""What the routes ask for vectors: an engine in this process, or a server elsewhere. Knows neither torch nor HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np

from embedder.model_info import ModelInfo
from embedder.refinement import Refinement
from embedder.refinement_steps import RefinementStep

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
class EmbedTask:
    """None: the model's default. "": no instruction."""

    texts: tuple[str, ...]
    input_type: InputType
    instruction: str | None = None
    steps: int | None = None
    is_bulk: bool | None = None  # wait behind queries, or among them; None: as few and short as the texts are
    may_cut: bool = True  # else a text that is longer than the model reads is refused
    every_step: bool = False  # vectors after each of the steps


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """vectors (n, dimension) float32, L2-normalised, in the order of the texts; after every step (n, K, dimension)."""

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


OnStep = Callable[[RefinementStep], None]


class EmbeddingSource(Protocol):
    """Raises RefusedError. Texts of a cancelled call are not computed."""

    async def info(self) -> ModelInfo: ...

    async def embed(self, task: EmbedTask) -> Embedded: ...


class RefiningSource(EmbeddingSource, Protocol):
    async def refine(self, task: RefineTask, *, on_step: OnStep | None = None) -> Refinement:
        """`on_step` is called in the event loop, as each step is there."""
        ...
