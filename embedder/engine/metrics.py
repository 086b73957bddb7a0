"""Prometheus metrics of the engine; each engine has its own counters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from embedder.command.status import needs_extra

with needs_extra("server", __name__):
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from embedder.engine.scheduler import Scheduler
from embedder.engine.work import EmbeddingResult, Item, Priority

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_TOKENS = (8, 32, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768)
_PREFIX = "gircse_embedder"


class Metrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry = registry or CollectorRegistry()
        by_priority = ["lane"]
        self._depth = Gauge(f"{_PREFIX}_queue_texts", "Waiting texts.", by_priority, registry=registry)
        self._waiting_tokens = Gauge(
            f"{_PREFIX}_queue_tokens", "Tokens of waiting texts.", by_priority, registry=registry
        )
        self._age = Gauge(f"{_PREFIX}_queue_age_seconds", "Wait of the oldest text.", by_priority, registry=registry)
        self._batch_texts = Histogram(
            f"{_PREFIX}_batch_texts", "Texts per batch.", by_priority, buckets=_SIZES, registry=registry
        )
        self._batch_tokens = Histogram(
            f"{_PREFIX}_batch_tokens", "Tokens per batch.", by_priority, buckets=_TOKENS, registry=registry
        )
        self._tokens = Counter(f"{_PREFIX}_tokens", "Prompt tokens computed.", by_priority, registry=registry)
        self._steps = Counter(f"{_PREFIX}_steps", "Refinement steps computed.", by_priority, registry=registry)
        self._stages = Histogram(
            f"{_PREFIX}_seconds",
            "Seconds per text and stage: tokenise, queue, compute.",
            ["stage", "lane"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._cached = Counter(f"{_PREFIX}_cache_hits", "Texts with a cached vector.", registry=registry)
        self._joined = Counter(f"{_PREFIX}_joined", "Texts shared with another waiting request.", registry=registry)
        self._refused = Counter(f"{_PREFIX}_refused", "Refused requests.", ["reason"], registry=registry)
        self._halved = Counter(f"{_PREFIX}_out_of_memory", "Batches that ran out of memory.", registry=registry)
        self._alive = Gauge(f"{_PREFIX}_alive", "1 while the compute thread runs.", registry=registry)

    def watch(self, scheduler: Scheduler) -> None:
        for priority in Priority:
            self._depth.labels(priority).set_function(partial(scheduler.depth, priority))
            self._waiting_tokens.labels(priority).set_function(partial(scheduler.tokens, priority))
            self._age.labels(priority).set_function(partial(scheduler.age_s, priority))

    def note_alive(self, is_alive: bool) -> None:
        self._alive.set(is_alive)

    def note_batch(self, batch: Sequence[Item]) -> None:
        priority = batch[0].priority
        self._batch_texts.labels(priority).observe(len(batch))
        tokens = sum(item.tokens for item in batch)
        self._batch_tokens.labels(priority).observe(tokens)
        self._tokens.labels(priority).inc(tokens)
        self._steps.labels(priority).inc(sum(item.key.steps for item in batch))

    def note_tokenised(self, priority: Priority, seconds: float) -> None:
        self._stages.labels("tokenise", priority).observe(seconds)

    def note_answer(self, priority: Priority, answer: EmbeddingResult) -> None:
        self._stages.labels("queue", priority).observe(answer.queued_s)
        self._stages.labels("compute", priority).observe(answer.computed_s)

    def note_cached(self, count: int) -> None:
        self._cached.inc(count)

    def note_joined(self, count: int) -> None:
        self._joined.inc(count)

    def note_refused(self, reason: str) -> None:
        self._refused.labels(reason).inc()

    def note_out_of_memory(self) -> None:
        self._halved.inc()
