"""The interface between the routes and a source of vectors: a local engine or a remote server. Without torch and
HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np

from embedder.model_info import ModelInfo
from embedder.refinement_steps import RefinementStep

# Headers of every response with vectors: the model, the number and length of vectors, tokens and truncated texts.
FINGERPRINT_HEADER = "x-gircse-fingerprint"
SHAPE_HEADER = "x-gircse-shape"
TOKENS_HEADER = "x-gircse-tokens"
CUT_HEADER = "x-gircse-truncated-texts"


class InputType(StrEnum):
    """The role of texts; it selects their default instruction and steps."""

    QUERY = "query"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class EmbedTask:
    """Texts to embed. instruction and steps: None means the model's default; instruction "" means none."""

    texts: tuple[str, ...]
    input_type: InputType
    instruction: str | None = None
    steps: int | None = None
    # queue behind queries (True) or among them (False); None: decide by number and length of the texts
    is_bulk: bool | None = None
    may_cut: bool = True  # False: refuse texts that exceed the model's limit
    every_step: bool = False  # return the vectors after each step


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedTexts:
    """The vectors of an `EmbedTask`. vectors: (n, dimension) float32, L2-normalised, in the order of the texts; with
    every step (n, K, dimension)."""

    vectors: np.ndarray
    tokens: int  # tokens that the model read
    truncated: int  # number of texts that were cut
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
    """A source of vectors. Methods raise RefusedError. Cancelling a call removes its texts from the queue."""

    async def info(self) -> ModelInfo: ...

    async def embed(self, task: EmbedTask) -> EmbeddedTexts: ...
