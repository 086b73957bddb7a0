"""A text on its way through the engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from embedder.refinement import Refinement, RefinementStep

Ids = tuple[int, ...]


class Lane(StrEnum):
    """In the order in which they are served."""

    PROBE = "probe"  # the canary of /readyz
    QUERY = "query"  # queries, refinements and small requests
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class Variant:
    """What all texts of a batch have in common besides the model."""

    bias: tuple[tuple[str, float], ...] = ()
    tolerance: float | None = None
    alone: int = 0  # another number than all others', where the batch is for one text


@dataclass(frozen=True, slots=True)
class Key:
    """All that decides about an answer of one model: the ids hold text, role and instruction."""

    ids: Ids
    steps: int
    variant: Variant
    wants_words: bool


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    vector: np.ndarray  # (dimension,) float32
    refinement: Refinement | None
    queued_s: float
    computed_s: float


@dataclass(eq=False, slots=True)
class Item:
    key: Key
    lane: Lane
    deadline: float  # of time.monotonic(): it is not computed when it is begun later
    text: str = ""
    instruction: str = ""
    on_step: Callable[[RefinementStep], None] | None = None
    answer: Future[Answer] = field(default_factory=Future)
    asked_at: float = field(default_factory=time.monotonic)
    taken_at: float = 0.0
    waiting: int = 0  # how many requests wait for it
    steps_told: int = 0

    @property
    def tokens(self) -> int:
        return len(self.key.ids)

    @property
    def cost(self) -> int:
        """Positions that the model computes."""
        return len(self.key.ids) + self.key.steps

    @property
    def is_shared(self) -> bool:
        """Whether others who want the same may wait for it, too."""
        return self.on_step is None and self.lane is not Lane.PROBE

    def resolve(self, answer: Answer) -> None:
        with suppress(InvalidStateError):  # whoever waited may have cancelled it at this very moment
            self.answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):
            self.answer.set_exception(error)

    def tell(self, step: RefinementStep) -> None:
        """Once each, also when the batch is computed again in halves."""
        if self.on_step is not None and self.steps_told < step.step <= self.key.steps:
            self.steps_told = step.step
            self.on_step(step)
