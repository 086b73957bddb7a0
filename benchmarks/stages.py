"""Takes a pipeline apart by the clock: the seconds that each stage of ingestion takes, one job after the other."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any

from app.services import Services
from app.types.documents import Collection
from ingest.pipeline import IngestPipeline
from ingest.readers import ProcessReader
from ingest.splitter import TokenSplitter
from ingest.worker import Worker

STAGES = ("read", "split", "embed", "upsert", "catalog")


class StageClock:
    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def timed_call(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            begin = time.perf_counter()
            try:
                result = function(*arguments, **options)
            finally:
                self.seconds[stage] += time.perf_counter() - begin
            return self._timed_items(stage, result) if isinstance(result, GeneratorType) else result

        return call

    def _timed_items(self, stage: str, items: Iterator[Any]) -> Iterator[Any]:
        done = object()
        step = self.timed_call(stage, lambda: next(items, done))
        while (item := step()) is not done:
            yield item

    def timed(self, stage: str, part: Any) -> Any:
        """The part, each of whose methods counts for the stage."""
        return _TimedPart(self, stage, part)


class _TimedPart:
    def __init__(self, clock: StageClock, stage: str, part: Any) -> None:
        self._clock, self._stage, self._part = clock, stage, part

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._part, name)
        return self._clock.timed_call(self._stage, value) if callable(value) else value


def measure_stages(services: Services) -> dict[str, float]:
    """Does every job that is due, one after the other; the first is not counted, since it starts the reader."""
    clock = StageClock()
    catalog = clock.timed("catalog", services.catalog)

    def splitter_for(collection: Collection) -> Callable[..., Any]:
        splitter = TokenSplitter(
            services.token_counter, max_tokens=collection.chunk_tokens, overlap=collection.chunk_overlap
        )
        return clock.timed_call("split", splitter)

    with ProcessReader() as read:
        pipeline = IngestPipeline(
            catalog=catalog,
            blobs=services.blobs,
            index=clock.timed("upsert", services.index),
            embedder=clock.timed("embed", services.embedder),
            read=clock.timed_call("read", read),
            splitter_for=splitter_for,
        )
        worker = Worker(catalog=catalog, pipeline=pipeline, owner="benchmark")
        worker.run_once()
        clock.seconds.clear()
        while worker.run_once():
            pass
    return {stage: clock.seconds[stage] for stage in STAGES}
