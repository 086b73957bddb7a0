"""Connects the engine to an event loop: tokenises in a thread, waits, and cancels the texts of a cancelled request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

import numpy as np

from embedder.engine.engine import Engine, late_error
from embedder.engine.errors import ComputationError, InvalidRequestError, NotServingError, RefusedError, TooLargeError
from embedder.engine.work import EmbeddingResult, Item, Priority, document_items, query_item
from embedder.errors import TextError
from embedder.model.contract import resolve_defaults
from embedder.model_info import ModelInfo
from embedder.refinement import Refinement
from embedder.refinement_steps import RefinementStep
from embedder.server.protocol import EmbeddedTexts, EmbedTask, InputType, OnStep, RefineTask
from embedder.text.prompts import PromptIds

_TOKENISERS = 2
Result = TypeVar("Result")


class EngineSource:
    """Embeddings and refinements of the engine, for the routes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tokenisers = ThreadPoolExecutor(_TOKENISERS, thread_name_prefix="gircse-tokenise")
        self._info = engine.encoder.info

    def close(self) -> None:
        self._tokenisers.shutdown(wait=False, cancel_futures=True)

    async def info(self) -> ModelInfo:
        return self._info

    async def embed(self, task: EmbedTask) -> EmbeddedTexts:
        return await self._counting(self._embed(task))

    async def refine(self, task: RefineTask, *, on_step: OnStep | None = None) -> Refinement:
        """Calls `on_step` in the event loop after each step."""
        return await self._counting(self._refine(task, on_step))

    async def is_ready(self) -> bool:
        """Whether the model embeds a canary text within the time limit."""
        engine = self._engine
        if not engine.is_serving:
            return False
        try:
            item = engine.probe()
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(item.answer)), engine.limits.ready_s)
        except (RefusedError, TimeoutError):
            return False
        return True

    async def _counting(self, answer: Awaitable[Result]) -> Result:
        try:
            return await answer
        except RefusedError as error:
            self._engine.metrics.note_refused(error.code or type(error).__name__)
            raise
        except asyncio.CancelledError:
            self._engine.metrics.note_refused("client_gone")
            raise

    async def _embed(self, task: EmbedTask) -> EmbeddedTexts:
        limits = self._engine.limits
        if len(task.texts) > limits.max_inputs:
            raise TooLargeError(
                f"The request has {len(task.texts)} texts; the limit is {limits.max_inputs}. Send them in parts.",
                param="input",
            )
        instruction, steps = self._resolve(task.input_type, task.instruction, task.steps)
        is_small = task.input_type is InputType.QUERY or len(task.texts) <= limits.small_inputs
        priority = Priority.DOCUMENT if task.is_bulk or (task.is_bulk is None and not is_small) else Priority.QUERY
        self._engine.scheduler.check_room_for(len(task.texts), priority)
        prompts = await self._read(task.texts, instruction, priority)
        tokens = sum(each.tokens for each in prompts)
        cut = sum(each.is_cut for each in prompts)
        self._check_tokens(task, prompts, tokens)
        if task.is_bulk is None and tokens > limits.small_tokens and task.input_type is InputType.DOCUMENT:
            priority = Priority.DOCUMENT
        deadline = self._deadline(priority)
        answers = await self._answers(
            document_items(
                prompts, task.texts, steps=steps, priority=priority, deadline=deadline, wants_steps=task.every_step
            )
        )
        vectors = np.stack([each.vector if each.steps is None else each.steps for each in answers])
        return EmbeddedTexts(vectors, tokens=tokens, truncated=cut, fingerprint=self._info.fingerprint)

    def _check_tokens(self, task: EmbedTask, prompts: Sequence[PromptIds], tokens: int) -> None:
        most = self._engine.limits.max_request_tokens
        if tokens > most:
            raise TooLargeError(
                f"The request has {tokens} tokens; the limit is {most}. Send the texts in parts.", param="input"
            )
        for index, each in enumerate(prompts):
            if not task.may_cut and each.is_cut:
                raise InvalidRequestError(
                    f"Text {index} has {each.length} tokens with its instruction; the limit is "
                    f"{self._info.max_length}. Split it, or send truncate=true.",
                    param="input",
                )

    async def _refine(self, task: RefineTask, on_step: OnStep | None) -> Refinement:
        instruction, steps = self._resolve(InputType.QUERY, task.instruction, task.steps)
        if task.tolerance is not None and not 0 <= task.tolerance <= 2:
            raise InvalidRequestError(f"tolerance is {task.tolerance}, but must be from 0 to 2.", param="tolerance")
        self._engine.scheduler.check_room_for(1, Priority.QUERY)
        (prompt,) = await self._read([task.text], instruction, Priority.QUERY)
        item = query_item(
            prompt,
            task.text,
            instruction=instruction,
            steps=steps,
            token_bias=task.token_bias,
            tolerance=task.tolerance,
            deadline=self._deadline(Priority.QUERY),
            on_step=None if on_step is None else _in_this_loop(on_step),
        )
        (answer,) = await self._answers([item])
        assert answer.refinement is not None
        return answer.refinement

    def _resolve(self, input_type: InputType, instruction: str | None, steps: int | None) -> tuple[str, int]:
        instruction, steps = resolve_defaults(self._engine.encoder.contract, input_type, instruction, steps)
        try:
            self._engine.encoder.check_steps(steps, instruction)
        except TextError as error:
            raise InvalidRequestError(str(error), param="steps") from None
        return instruction, steps

    async def _read(self, texts: Sequence[str], instruction: str, priority: Priority) -> list[PromptIds]:
        started = time.monotonic()
        read = partial(self._engine.encoder.read_prompts, list(texts), instruction)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._tokenisers, read)
        except TextError as error:
            raise InvalidRequestError(str(error), param="input") from None
        except RuntimeError:
            if self._engine.is_serving:
                raise
            raise NotServingError("This server is shutting down.", retry_after_s=5) from None
        finally:
            self._engine.metrics.note_tokenised(priority, time.monotonic() - started)

    def _deadline(self, priority: Priority) -> float:
        limits = self._engine.limits
        return time.monotonic() + (
            limits.query_deadline_s if priority is Priority.QUERY else limits.document_deadline_s
        )

    async def _answers(self, items: Sequence[Item]) -> list[EmbeddingResult]:
        """Collects the answers, in the order of `items`. Raises the first error, with the index of its text in the
        request."""
        chosen = self._engine.submit(items)
        try:
            answers = [item.answer for item in chosen]
            to_begin_s = max(item.deadline for item in items) - time.monotonic()
            has_all = await _are_done(answers, timeout_s=to_begin_s)
            if not has_all and not any(item.is_waiting for item in chosen):
                has_all = await _are_done(answers, timeout_s=self._engine.limits.compute_s)
            if not has_all:
                raise late_error()
        finally:
            self._engine.scheduler.leave(chosen)
        for row, item in enumerate(chosen):
            error = item.answer.exception() if item.answer.done() else None
            if error is not None:
                raise _with_index(error, row)
        return [item.answer.result() for item in chosen]


async def _are_done(futures: Sequence[Future[EmbeddingResult]], *, timeout_s: float) -> bool:
    """Waits until all futures are done or one fails; False on timeout. Notifies the loop only once, to keep it
    responsive."""
    loop, event, lock = asyncio.get_running_loop(), asyncio.Event(), threading.Lock()
    left = len(futures)

    def note(future: Future[EmbeddingResult]) -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last or (future.exception() is not None):
            with suppress(RuntimeError):  # the loop ended before the answers came
                loop.call_soon_threadsafe(event.set)

    for future in futures:
        future.add_done_callback(note)
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        return False
    return True


def _with_index(error: BaseException, row: int) -> BaseException:
    """A copy of the error with the text's index; requests share the original error."""
    if isinstance(error, (ComputationError, InvalidRequestError)):
        return type(error)(f"Text {row}: {error}", param="input")
    if isinstance(error, RefusedError):
        return type(error)(str(error), param=error.param, retry_after_s=error.retry_after_s)
    return error


def _in_this_loop(on_step: OnStep) -> Callable[[RefinementStep], None]:
    loop = asyncio.get_running_loop()

    def tell(step: RefinementStep) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(on_step, step)

    return tell
