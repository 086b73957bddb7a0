"""Computes a batch, and answers every text of it: an error of one does not fail the others."""

from __future__ import annotations

import gc
import logging
import time
import uuid
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from embedder.encoder import Encoder
from embedder.engine.errors import ComputationError, InvalidRequestError, NotAVectorError
from embedder.engine.work import Answer, Item, Priority
from embedder.errors import TextError
from embedder.model.refine import steps_to_convergence
from embedder.text.tokens import TopTokens

TOP_TOKENS = 30

_log = logging.getLogger(__name__)


class BatchRunner:
    """`note_out_of_memory` is called when the device has no memory for a batch, `note_batch` with what was computed,
    `note_answer` with every answer before it is given, `let_queries_in` between the parts of a batch of documents;
    `clock` tells seconds, and stands still meanwhile."""

    def __init__(
        self,
        encoder: Encoder,
        *,
        note_out_of_memory: Callable[[], None] = lambda: None,
        note_batch: Callable[[Sequence[Item]], None] = lambda _: None,
        note_answer: Callable[[Item, Answer], None] = lambda _, __: None,
        let_queries_in: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._encoder = encoder
        self._note_out_of_memory = note_out_of_memory
        self._note_batch = note_batch
        self._note_answer = note_answer
        self._let_queries_in = let_queries_in
        self._clock = clock

    def run(self, batch: Sequence[Item]) -> None:
        """Gives every item its answer or its error. An exception is not due to a text: the thread is to end."""
        groups = [list(batch)]
        while groups:
            group = groups.pop()
            error = self._attempt(group)
            if error is None:
                continue
            if is_out_of_memory(error):
                self._note_out_of_memory()
                free_memory()
            if len(group) == 1:
                group[0].fail(refusal_of(error))
            else:
                half = len(group) // 2
                groups += [group[half:], group[:half]]

    def _attempt(self, group: Sequence[Item]) -> Exception | None:
        """The error is given, not raised: its traceback would keep the tensors of the batch in memory."""
        started = self._clock()
        variant = group[0].key.variant
        observed = self._encoder.token_recorder(TOP_TOKENS) if any(item.key.wants_words for item in group) else None
        try:
            prefixes = self._encoder.refine_prompts(
                [item.key.ids for item in group],
                steps=max(item.key.steps for item in group),
                token_bias=dict(variant.bias),
                on_step=None if observed is None else self._watch(group, observed),
                tolerance=variant.tolerance,
                between_parts=self._let_queries_in if group[0].priority is Priority.DOCUMENT else None,
            )
            self._note_batch(group)
            seconds = self._clock() - started
            for row, item in enumerate(group):
                self._answer(item, prefixes[row], observed, row, seconds)
        except Exception as error:  # noqa: BLE001 - whatever it is, it becomes the answer of the text whose fault it is
            return error.with_traceback(None)
        return None

    def _watch(self, group: Sequence[Item], observed: TopTokens) -> Callable[[int, Tensor], None]:
        streamed = [(row, item) for row, item in enumerate(group) if item.on_step is not None]

        def watch(step: int, soft_token: Tensor) -> None:
            observed(step, soft_token)
            for row, item in streamed:
                item.tell(self._encoder.words_of(observed, row)[-1])

        return watch

    def _answer(self, item: Item, prefixes: np.ndarray, observed: TopTokens | None, row: int, seconds: float) -> None:
        prefixes = prefixes[: max(item.key.steps, 1)]  # after fewer steps than the others of the batch: z_k is a prefix
        tolerance = item.key.variant.tolerance
        if tolerance is not None:
            prefixes = prefixes[: int(steps_to_convergence(torch.from_numpy(prefixes[None]), tolerance)[0])]
        vector = prefixes[-1]
        if not np.isfinite(prefixes).all() or float(np.abs(vector).max()) == 0.0:
            item.fail(NotAVectorError(f"The model gave no vector of length 1 for {item.text[:40]!r}: leave it out."))
            return
        refinement = None
        if item.key.wants_words and observed is not None:
            refinement = self._encoder.refinement_of(item.text, item.instruction, prefixes, observed, row=row)
        steps = prefixes.copy() if item.key.wants_steps else None
        answer = Answer(vector.copy(), refinement, item.taken_at - item.asked_at, seconds, steps)
        self._note_answer(item, answer)
        item.resolve(answer)


def is_out_of_memory(error: BaseException) -> bool:
    """On some devices it is a RuntimeError like any other."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError)
        and any(words in str(error).lower() for words in ("out of memory", "can't allocate memory"))
    )


def free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def refusal_of(error: Exception) -> Exception:
    """What the client is told: its own error in full, of an internal one the id in the log."""
    if isinstance(error, TextError):
        return InvalidRequestError(str(error))
    error_id = uuid.uuid4().hex[:12]
    _log.error("Error %s while a text was embedded", error_id, exc_info=error)
    told = f"The model failed at this text; the server's log names it {error_id}."
    if is_out_of_memory(error):
        told = (
            f"The device has no memory for this text alone; the server's log names it {error_id}. "
            "Take fewer steps or a shorter text, or give the server a larger device."
        )
    refusal = ComputationError(told)
    refusal.__cause__ = error
    return refusal
