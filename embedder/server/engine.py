"""One model, one thread that computes: batches from the line, until it is closed. Every text is answered for."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Sequence

from embedder.encoder import Encoder
from embedder.server.computing import Computing
from embedder.server.errors import NotServingError
from embedder.server.limits import Limits
from embedder.server.line import Line
from embedder.server.metrics import Metrics
from embedder.server.work import Answer, Item, Key, Lane, Variant
from embedder.vector_cache import VectorCache

_DEAD = "The thread that computes has ended; the server's log says why. Start the server again."
_DRAINING = "This server is shutting down. Ask another one, or come back later."
_LATE = "This waited longer than it may, and was not computed. Come back later."
_STOPPED = "This server has shut down before it came to this."
_PROBE_TEXT = "ready?"

_log = logging.getLogger(__name__)


class Engine:
    """Starts its thread at once. Close it, or use it in a `with`."""

    def __init__(self, encoder: Encoder, limits: Limits | None = None, *, metrics: Metrics | None = None) -> None:
        self.encoder = encoder
        self.limits = limits or Limits()
        self.metrics = metrics or Metrics()
        self.line = Line(self.limits)
        self.recent = VectorCache(self.limits.cache_mb) if self.limits.cache_mb > 0 else None
        self._computing = Computing(
            encoder,
            note_out_of_memory=self._note_out_of_memory,
            note_batch=self._note_batch,
            note_answer=self._note_answer,
        )
        self._probe_lock = threading.Lock()
        self._probe: Item | None = None
        self.metrics.watch(self.line)
        self._thread = threading.Thread(target=self._run, name="gircse-engine", daemon=True)
        self._thread.start()

    def enter(self, items: Sequence[Item]) -> list[Item]:
        """As `Line.enter`."""
        chosen = self.line.enter(items)
        self.metrics.note_joined(sum(one is not other for one, other in zip(chosen, items, strict=True)))
        return chosen

    @property
    def is_serving(self) -> bool:
        """False when the thread is dead, and from the beginning of a shutdown on."""
        return self._thread.is_alive() and self.line.closed is None

    def probe(self) -> Item:
        """A canary that really is computed, before all others. One at a time, however many ask."""
        with self._probe_lock:
            if self._probe is None or self._probe.answer.done():
                (prompt,) = self.encoder.read_prompts([_PROBE_TEXT], "")
                key = Key(prompt.ids, steps=1, variant=Variant(), wants_words=False)
                item = Item(key, Lane.PROBE, deadline=float("inf"), text=_PROBE_TEXT)
                (self._probe,) = self.line.enter([item])
            return self._probe

    def drain(self) -> None:
        """Lets nobody in any more; those who wait are served."""
        self.line.close(_DRAINING)

    def close(self) -> None:
        """Serves those who wait, for `drain_s` at most, and ends the thread."""
        self.drain()
        self._thread.join(self.limits.drain_s)
        self._fail(self.line.drop_all(_STOPPED), NotServingError(_STOPPED, retry_after_s=5))

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def expire(self, items: Sequence[Item], *, also_begun: bool) -> None:
        """Who asked for these waits no longer, whatever the thread is doing."""
        self._fail(items if also_begun else self.line.drop(items), NotServingError(_LATE, retry_after_s=5))

    def _run(self) -> None:
        self.metrics.note_alive(True)
        batch: list[Item] = []
        try:
            while True:
                batch, late = self.line.take()
                self._fail(late, NotServingError(_LATE, retry_after_s=5))
                if batch:
                    self._compute(batch)
                elif not late:
                    break
        except BaseException as error:  # noqa: BLE001 - the end of this thread must not be the end of all hope
            error_id = uuid.uuid4().hex[:12]
            _log.critical("Error %s ended the thread that computes", error_id, exc_info=error)
            dead = NotServingError(f"{_DEAD} (error {error_id})", retry_after_s=5)
            self._fail([*batch, *self.line.drop_all(_DEAD)], dead)
        finally:
            self.metrics.note_alive(False)

    def _compute(self, batch: list[Item]) -> None:
        started = time.monotonic()
        self._computing.resolve(batch)
        self.line.note_done(batch, time.monotonic() - started)

    def _note_batch(self, batch: Sequence[Item]) -> None:
        self.line.note_computed()
        self.metrics.note_batch(batch)

    def _note_answer(self, item: Item, answer: Answer) -> None:
        self.metrics.note_answer(item.lane, answer)
        if self.recent is not None and item.is_shared:
            self.recent.keep(item.key.ids, item.key.steps, answer.vector, variant=item.key.variant)

    def _note_out_of_memory(self) -> None:
        self.metrics.note_out_of_memory()
        self.line.shrink_batches()

    @staticmethod
    def _fail(items: Sequence[Item], error: Exception) -> None:
        for item in items:
            item.fail(error)
