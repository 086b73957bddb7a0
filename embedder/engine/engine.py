"""Runs one model behind one scheduler; every text gets a vector or an error. A CPU computes two batches of documents in
parallel."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait

import numpy as np

from embedder.encoder import Encoder
from embedder.engine.batch import BatchRunner
from embedder.engine.errors import NotServingError
from embedder.engine.limits import Limits
from embedder.engine.metrics import Metrics
from embedder.engine.scheduler import Scheduler
from embedder.engine.streams import Streams, streams_for
from embedder.engine.work import BatchOptions, EmbeddingResult, Item, Key, Priority, document_items, query_item
from embedder.model.contract import resolve_defaults
from embedder.model.decoder import release_spare_memory
from embedder.model.refine import check_tolerance
from embedder.refinement import Refinement
from embedder.vector_cache import VectorCache

_DEAD = "The engine stopped after an error; see the log. Restart the process."
_DRAINING = "This server is shutting down. Use another one, or retry later."
_LATE = "The request timed out in the queue. Retry later."
_LEFT = "Embedding was interrupted because the job was cancelled or paused. It will run later."
_STOPPED = "This server shut down before it computed this text."
_PROBE_TEXT = "ready?"
_POLL_S = 0.2  # how often a waiting thread polls `is_leaving`

_log = logging.getLogger(__name__)


class _TimeOfQueries(threading.local):
    """Per thread: seconds that its batches of documents spent on queries between their parts."""

    seconds = 0.0


class Engine:
    """Embeds texts in batches with one model, in order of urgency.

    Computes in the process's model thread. With `streams` = 2, documents also use a second thread; None chooses by
    device. Close it, or use it in a `with`.
    """

    def __init__(
        self,
        encoder: Encoder,
        limits: Limits | None = None,
        *,
        metrics: Metrics | None = None,
        streams: int | None = None,
    ) -> None:
        self.encoder = encoder
        self.limits = limits or Limits()
        self.metrics = metrics or Metrics()
        self._streams = Streams(streams or streams_for(encoder.device))
        self.scheduler = Scheduler(self.limits, streams=self._streams.count)
        self._cache = VectorCache(self.limits.cache_mb) if self.limits.cache_mb > 0 else None
        self._runner = BatchRunner(
            encoder,
            note_out_of_memory=self._note_out_of_memory,
            note_batch=self._note_batch,
            note_answer=self._note_answer,
            let_queries_in=self._let_queries_in,
            clock=self._clock,
        )
        self._probe_lock = threading.Lock()
        self._probe: Item | None = None
        self._changed = threading.Condition()
        self._is_dead = False
        self._time_of_queries = _TimeOfQueries()
        self.metrics.watch(self.scheduler)
        self.metrics.note_alive(True)

    def embed(
        self,
        texts: Sequence[str],
        *,
        instruction: str,
        steps: int,
        priority: Priority = Priority.DOCUMENT,
        is_leaving: Callable[[], bool] = lambda: False,
    ) -> np.ndarray:
        """Computes vectors (n, dimension) and waits for them; never refuses. Raises NotServingError once `is_leaving`
        returns True."""
        items = self._document_items(texts, instruction, steps, priority)
        vectors = np.empty((len(texts), self.encoder.dimension), dtype=np.float32)
        for row, answer in enumerate(self._wait_for(items, is_leaving=is_leaving)):
            vectors[row] = answer.vector
        return vectors

    def embed_steps(
        self,
        texts: Sequence[str],
        *,
        instruction: str,
        steps: int,
        priority: Priority = Priority.DOCUMENT,
        is_leaving: Callable[[], bool] = lambda: False,
    ) -> np.ndarray:
        """Like `embed`, but returns the vectors after every step: z_1..z_K (n, K, dimension)."""
        items = self._document_items(texts, instruction, steps, priority, wants_steps=True)
        prefixes = [answer.steps for answer in self._wait_for(items, is_leaving=is_leaving)]
        shape = (len(texts), max(steps, 1), self.encoder.dimension)
        return np.asarray(prefixes, dtype=np.float32).reshape(shape)

    def _document_items(
        self, texts: Sequence[str], instruction: str, steps: int, priority: Priority, *, wants_steps: bool = False
    ) -> list[Item]:
        self.encoder.check_steps(steps, instruction)
        instruction, steps = resolve_defaults(self.encoder.contract, "document", instruction, steps)
        prompts = self.encoder.read_prompts(texts, instruction)
        return document_items(prompts, texts, steps=steps, priority=priority, wants_steps=wants_steps)

    def refine(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
        tolerance: float | None = None,
    ) -> Refinement:
        """Like `Encoder.refine`, ahead of all waiting documents; never refuses."""
        instruction, steps = resolve_defaults(self.encoder.contract, "query", instruction, steps)
        self.encoder.check_steps(steps, instruction)
        check_tolerance(tolerance)
        (prompt,) = self.encoder.read_prompts([text], instruction)
        item = query_item(
            prompt, text, instruction=instruction, steps=steps, token_bias=token_bias or {}, tolerance=tolerance
        )
        (answer,) = self._wait_for([item])
        assert answer.refinement is not None
        return answer.refinement

    def submit(self, items: Sequence[Item], *, may_refuse: bool = True) -> list[Item]:
        """Like `Scheduler.submit`, but resolves items with a cached vector at once."""
        new = [item for item in items if not self._answer_from_cache(item)]
        self.metrics.note_cached(len(items) - len(new))
        if not new:
            return list(items)
        chosen = self.scheduler.submit(new, may_refuse=may_refuse)
        self._start()
        self.metrics.note_joined(sum(one is not other for one, other in zip(chosen, new, strict=True)))
        by_wanted = dict(zip(new, chosen, strict=True))
        return [by_wanted.get(item, item) for item in items]

    @property
    def is_serving(self) -> bool:
        """Whether it accepts texts: not after a fatal error, nor from the start of a shutdown."""
        return not self._is_dead and self.scheduler.closed is None

    def probe(self) -> Item:
        """Queues a canary text ahead of all others, without the cache, and returns its item. Concurrent callers share
        one."""
        with self._probe_lock:
            if self._probe is None or self._probe.answer.done():
                (prompt,) = self.encoder.read_prompts([_PROBE_TEXT], "")
                key = Key(prompt.ids, steps=1, options=BatchOptions(), wants_words=False)
                (self._probe,) = self.submit([Item(key, Priority.PROBE, text=_PROBE_TEXT)])
            return self._probe

    def release_spare_memory(self) -> None:
        """Frees the memory that models keep for the next batch; after large batches it is large."""
        with self._changed:
            self._streams.release()
        release_spare_memory()

    def drain(self) -> None:
        """Accepts no new texts; computes the waiting ones."""
        self.scheduler.close(_DRAINING)

    def close(self) -> None:
        """Computes the waiting texts, for `drain_s` at most, and stops."""
        self.drain()
        with self._changed:
            self._changed.wait_for(lambda: not self._streams.busy, self.limits.drain_s)
            self._streams.release()
        _fail(self.scheduler.drop_all(_STOPPED), NotServingError(_STOPPED, retry_after_s=5))
        self.metrics.note_alive(False)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait_for(
        self, items: Sequence[Item], *, is_leaving: Callable[[], bool] = lambda: False
    ) -> list[EmbeddingResult]:
        if is_leaving():
            raise NotServingError(_LEFT)
        chosen = self.submit(items, may_refuse=False)
        try:
            waiting = {item.answer for item in chosen}
            while waiting:
                done, waiting = wait(waiting, timeout=_POLL_S, return_when=FIRST_EXCEPTION)
                if any(each.exception() is not None for each in done):
                    break
                if waiting and is_leaving():
                    raise NotServingError(_LEFT)
        finally:
            self.scheduler.leave(chosen)
        failed = [item for item in chosen if item.answer.done() and item.answer.exception() is not None]
        return [item.answer.result() for item in failed or chosen]

    def _answer_from_cache(self, item: Item) -> bool:
        if self._cache is None or not item.is_shared or item.key.wants_words or item.key.wants_steps:
            return False
        vector = self._cache.get(item.key.ids, item.key.steps, variant=item.key.options)
        if vector is not None:
            item.resolve(EmbeddingResult(vector, None, queued_s=0.0, computed_s=0.0))
        return vector is not None

    def _start(self) -> None:
        with self._changed:
            if self._is_dead:
                return
            begun = [
                stream
                for stream in range(self._streams.count)
                if self._has_work(stream) and self._streams.begin(stream)
            ]
        for stream in begun:
            self._continue(stream)

    def _has_work(self, stream: int) -> bool:
        return self.scheduler.depth(Priority.DOCUMENT) > 0 if stream else self.scheduler.has_waiting

    def _continue(self, stream: int) -> None:
        """Schedules the next batch of a stream, so that other work can run in the thread between two batches."""
        try:
            self._streams.submit(stream, self._compute_next)
        except RuntimeError as error:  # the interpreter is shutting down
            self._die(error, [])

    def _compute_next(self, stream: int) -> None:
        batch: list[Item] = []
        try:
            batch, late = self.scheduler.take(documents_only=stream > 0)
            _fail(late, late_error())
            if batch:
                with self._changed:
                    self._streams.take_cores(stream, is_shared=batch[0].priority is Priority.DOCUMENT)
                self._compute(batch)
        except BaseException as error:  # noqa: BLE001 - all waiting callers must get an error
            self._die(error, batch)
            return
        with self._changed:
            is_done = not self._has_work(stream)
            if is_done:
                self._streams.end(stream)
            self._changed.notify_all()
        if not is_done:
            self._continue(stream)

    def _compute(self, batch: list[Item]) -> None:
        started = self._clock()
        self._runner.run(batch)
        self.scheduler.note_done(batch, self._clock() - started)

    def _clock(self) -> float:
        """Seconds, without the time that this thread spent on queries between the parts of a batch."""
        return time.monotonic() - self._time_of_queries.seconds

    def _let_queries_in(self) -> None:
        """Runs at most one batch of queries, so that documents progress however many queries come."""
        started = time.monotonic()
        with self.scheduler.interruption() as (batch, late):
            _fail(late, late_error())
            if batch:
                try:
                    self._compute(batch)
                except BaseException as error:
                    self._die(error, batch)
                    raise
                self._time_of_queries.seconds += time.monotonic() - started

    def _die(self, error: BaseException, batch: Sequence[Item]) -> None:
        error_id = uuid.uuid4().hex[:12]
        _log.critical("Error %s stopped the engine", error_id, exc_info=error)
        self._is_dead = True
        self.metrics.note_alive(False)
        dead = NotServingError(f"{_DEAD} (error {error_id})", retry_after_s=5)
        _fail([*batch, *self.scheduler.drop_all(_DEAD)], dead)
        with self._changed:
            self._streams.busy.clear()
            self._changed.notify_all()

    def _note_batch(self, batch: Sequence[Item]) -> None:
        self.scheduler.note_computed()
        self.metrics.note_batch(batch)

    def _note_answer(self, item: Item, answer: EmbeddingResult) -> None:
        self.metrics.note_answer(item.priority, answer)
        if self._cache is not None and item.is_shared:
            self._cache.keep(item.key.ids, item.key.steps, answer.vector, variant=item.key.options)

    def _note_out_of_memory(self) -> None:
        self.metrics.note_out_of_memory()
        self.scheduler.shrink_batches()


def late_error() -> NotServingError:
    return NotServingError(_LATE, retry_after_s=5)


def _fail(items: Sequence[Item], error: Exception) -> None:
    for item in items:
        item.fail(error)
