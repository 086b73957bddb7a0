"""One text in the scheduler: its key, its options and its answer."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from embedder.refinement import Refinement
from embedder.refinement_steps import RefinementStep

if TYPE_CHECKING:  # importing it loads torch
    from embedder.text.prompts import PromptIds

_numbers = itertools.count(1)
_TEXT_IN_ERRORS = 40  # characters
Ids = tuple[int, ...]


class Priority(StrEnum):
    """Priority classes, most urgent first."""

    PROBE = "probe"  # the canary of /readyz
    QUERY = "query"  # interactive: queries, refinements, small requests
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Options that all texts of a batch must share."""

    bias: tuple[tuple[str, float], ...] = ()
    tolerance: float | None = None
    alone: int = 0  # a unique number keeps a text in a batch of its own


@dataclass(frozen=True, slots=True)
class Key:
    """Identifies an answer of one model; the ids encode text, role and instruction."""

    ids: Ids
    steps: int
    options: BatchOptions
    wants_words: bool
    wants_steps: bool = False  # return the vectors of all steps


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingResult:
    vector: np.ndarray  # (dimension,) float32
    refinement: Refinement | None
    queued_s: float
    computed_s: float
    steps: np.ndarray | None = None  # z_1..z_K (K, dimension), if wanted


@dataclass(eq=False, slots=True)
class Item:
    key: Key
    priority: Priority
    deadline: float = math.inf  # in time.monotonic(); dropped if not started by then
    text: str = ""
    instruction: str = ""
    on_step: Callable[[RefinementStep], None] | None = None
    answer: Future[EmbeddingResult] = field(default_factory=Future)
    asked_at: float = field(default_factory=time.monotonic)
    taken_at: float = 0.0
    turn: float = 0.0  # documents start in this order
    waiting: int = 0  # number of requests that wait for it
    steps_reported: int = 0

    @property
    def tokens(self) -> int:
        return len(self.key.ids)

    @property
    def cost(self) -> int:
        """Number of positions that the model computes."""
        return len(self.key.ids) + self.key.steps

    @property
    def is_waiting(self) -> bool:
        return self.taken_at == 0.0 and not self.answer.done()

    @property
    def is_shared(self) -> bool:
        """Whether equal requests may share this item."""
        return self.on_step is None and self.priority is not Priority.PROBE

    def resolve(self, answer: EmbeddingResult) -> None:
        with suppress(InvalidStateError):  # its request may be cancelled at this very moment
            self.answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):
            self.answer.set_exception(error)

    def report_step(self, step: RefinementStep) -> None:
        """Reports each step once, even if the batch runs again in halves."""
        if self.on_step is not None and self.steps_reported < step.step <= self.key.steps:
            self.steps_reported = step.step
            self.on_step(step)


def document_items(
    prompts: Sequence[PromptIds],
    texts: Sequence[str],
    *,
    steps: int,
    priority: Priority,
    deadline: float = math.inf,
    wants_steps: bool = False,
) -> list[Item]:
    """Items that return only vectors; with `wants_steps`, those after every step."""
    keys = [Key(prompt.ids, steps, BatchOptions(), wants_words=False, wants_steps=wants_steps) for prompt in prompts]
    return [Item(key, priority, deadline, text=text[:_TEXT_IN_ERRORS]) for key, text in zip(keys, texts, strict=True)]


def query_item(
    prompt: PromptIds,
    text: str,
    *,
    instruction: str,
    steps: int,
    token_bias: Mapping[str, float],
    tolerance: float | None,
    deadline: float = math.inf,
    on_step: Callable[[RefinementStep], None] | None = None,
) -> Item:
    """An item that also returns the words of every step."""
    # A streamed step cannot be taken back if the text converges earlier than others of its batch.
    alone = next(_numbers) if on_step is not None and tolerance is not None else 0
    options = BatchOptions(tuple(sorted(token_bias.items())), tolerance, alone)
    key = Key(prompt.ids, steps, options, wants_words=True)
    return Item(key, Priority.QUERY, deadline, text=text, instruction=instruction, on_step=on_step)
