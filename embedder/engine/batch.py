"""Computes a batch and gives each text its vector or error; a text that fails does not affect the others."""

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
from embedder.engine.work import EmbeddingResult, Item, Priority
from embedder.errors import TextError
from embedder.model.refine import steps_to_convergence
from embedder.text.tokens import TopTokens

TOP_TOKENS = 30

_log = logging.getLogger(__name__)


class BatchRunner:
    """Computes batches and resolves their items. Callbacks:

    - `note_out_of_memory`: the device had no memory for a batch.
    - `note_batch`: a batch was computed.
    - `note_answer`: one answer, just before its item is resolved.
    - `let_queries_in`: called between the parts of a batch of documents.
    - `clock`: seconds; it stands still while `let_queries_in` runs.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        note_out_of_memory: Callable[[], None] = lambda: None,
        note_batch: Callable[[Sequence[Item]], None] = lambda _: None,
        note_answer: Callable[[Item, EmbeddingResult], None] = lambda _, __: None,
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
        """Resolves or fails every item. A batch that fails is halved until the faulty text is alone.

        An exception from here is not caused by a text; the thread must end.
        """
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
        """Computes the group. Returns an error instead of raising it: its traceback would keep the batch's tensors in
        memory."""
        started = self._clock()
        options = group[0].key.options
        observed = self._encoder.token_recorder(TOP_TOKENS) if any(item.key.wants_words for item in group) else None
        try:
            prefixes = self._encoder.refine_prompts(
                [item.key.ids for item in group],
                steps=max(item.key.steps for item in group),
                token_bias=dict(options.bias),
                on_step=None if observed is None else self._watch(group, observed),
                tolerance=options.tolerance,
                between_parts=self._let_queries_in if group[0].priority is Priority.DOCUMENT else None,
            )
            self._note_batch(group)
            seconds = self._clock() - started
            for row, item in enumerate(group):
                self._answer(item, prefixes[row], observed, row, seconds)
        except Exception as error:  # noqa: BLE001 - any error becomes the answer of the text that caused it
            return error.with_traceback(None)
        return None

    def _watch(self, group: Sequence[Item], observed: TopTokens) -> Callable[[int, Tensor], None]:
        streamed = [(row, item) for row, item in enumerate(group) if item.on_step is not None]

        def watch(step: int, soft_token: Tensor) -> None:
            observed(step, soft_token)
            for row, item in streamed:
                item.report_step(self._encoder.words_of(observed, row)[-1])

        return watch

    def _answer(self, item: Item, prefixes: np.ndarray, observed: TopTokens | None, row: int, seconds: float) -> None:
        # Others of the batch may take more steps. After k steps, z_k is the last row of the prefix.
        prefixes = prefixes[: max(item.key.steps, 1)]
        tolerance = item.key.options.tolerance
        if tolerance is not None:
            prefixes = prefixes[: int(steps_to_convergence(torch.from_numpy(prefixes[None]), tolerance)[0])]
        vector = prefixes[-1]
        if not np.isfinite(prefixes).all() or float(np.abs(vector).max()) == 0.0:
            item.fail(NotAVectorError(f"The model returned an invalid vector for {item.text[:40]!r}. Leave it out."))
            return
        refinement = None
        if item.key.wants_words and observed is not None:
            refinement = self._encoder.refinement_of(item.text, item.instruction, prefixes, observed, row=row)
        steps = prefixes.copy() if item.key.wants_steps else None
        answer = EmbeddingResult(vector.copy(), refinement, item.taken_at - item.asked_at, seconds, steps)
        self._note_answer(item, answer)
        item.resolve(answer)


def is_out_of_memory(error: BaseException) -> bool:
    """Some devices raise a plain RuntimeError when memory runs out."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError)
        and any(words in str(error).lower() for words in ("out of memory", "can't allocate memory"))
    )


def free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def refusal_of(error: Exception) -> Exception:
    """The error for the client: an EmbedderError in full, of an internal error only its id in the log."""
    if isinstance(error, TextError):
        return InvalidRequestError(str(error))
    error_id = uuid.uuid4().hex[:12]
    _log.error("Error %s while a text was embedded", error_id, exc_info=error)
    message = f"The model failed on this text. The server's log has details under {error_id}."
    if is_out_of_memory(error):
        message = (
            f"The device ran out of memory on this one text. The server's log has details under {error_id}. "
            "Use fewer steps, a shorter text or a larger device."
        )
    refusal = ComputationError(message)
    refusal.__cause__ = error
    return refusal
