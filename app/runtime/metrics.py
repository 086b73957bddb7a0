"""Prometheus metrics of one process, in a separate registry.

Values of labels come from this code, never from documents, queries or collections: the number of series is bounded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.errors import GircseError
from app.ports.ledger import Ledger
from app.ports.parts import VectorIndex
from app.runtime.tracing import NO_SPANS, Spans
from app.types.documents import JobState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_STAGE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 300)
_LOOK_AGAIN_S = 10.0  # minimum interval between reads of the index size


class ProcessMetrics:
    """The metrics of this process. Implements `Observer`, counts requests, and renders the response of /metrics."""

    def __init__(self, *, spans: Spans = NO_SPANS) -> None:
        self.spans = spans
        self.registry = CollectorRegistry(auto_describe=True)
        self._requests = Histogram(
            "gircse_request_seconds",
            "Requests, by the template of their route.",
            ("method", "route", "status"),
            buckets=_REQUEST_BUCKETS,
            registry=self.registry,
        )
        self._stages = Histogram(
            "gircse_stage_seconds",
            "Stages of searches and jobs.",
            ("stage",),
            buckets=_STAGE_BUCKETS,
            registry=self.registry,
        )
        self._errors = Counter(
            "gircse_stage_faults", "Stages that ended in an error.", ("stage",), registry=self.registry
        )
        self._lookups = Counter(
            "gircse_cache_lookups", "Lookups in caches.", ("cache", "result"), registry=self.registry
        )
        self._in_flight = Gauge("gircse_requests_in_flight", "Requests in progress.", registry=self.registry)

        self._refused = Counter(
            "gircse_requests_refused",
            "Requests refused with 429 because too many were in flight.",
            ("lane",),
            registry=self.registry,
        )
        self._admitted = Gauge(
            "gircse_requests_admitted",
            "Requests that wait for a slot, or have one.",
            ("lane", "state"),
            registry=self.registry,
        )

    @contextmanager
    def stage(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        with self.spans.span(stage):
            try:
                yield
            except BaseException:
                self._errors.labels(stage).inc()
                raise
            finally:
                self._stages.labels(stage).observe(time.perf_counter() - started)

    def looked_up(self, name: str, *, is_hit: bool) -> None:
        self._lookups.labels(name, "hit" if is_hit else "miss").inc()

    @contextmanager
    def request_in_flight(self) -> Iterator[None]:
        with self._in_flight.track_inprogress():
            yield

    def answered(self, *, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).observe(seconds)

    def refused(self, request_class: str) -> None:
        self._refused.labels(request_class).inc()

    def request_class(self, name: str, *, waiting: Callable[[], int], in_flight: Callable[[], int]) -> None:
        """Registers the functions from which the gauges of a request class read their values."""
        self._refused.labels(name)
        self._admitted.labels(name, "waiting").set_function(waiting)
        self._admitted.labels(name, "in hand").set_function(in_flight)

    def render(self, application: Collector | None = None) -> bytes:
        """Renders all metrics; those of `application` are collected now."""
        text = generate_latest(self.registry)
        if application is None:
            return text
        registry = CollectorRegistry(auto_describe=False)
        registry.register(application)
        return text + generate_latest(registry)


@dataclass(frozen=True, slots=True)
class _Size:
    seconds: float
    points: int
    indexes: int


class ApplicationCollector(Collector):
    """Reads the catalog and the index at each scrape. Reports an unavailable part as down; the other's metrics stay."""

    def __init__(self, *, catalog: Ledger, index: VectorIndex, is_worker_running: Callable[[], bool]) -> None:
        self._catalog = catalog
        self._index = index
        self._is_worker_there = is_worker_running
        self._size: _Size | None = None

    def collect(self) -> Iterator[Metric]:
        parts: Mapping[str, Callable[[], list[Metric]]] = {"catalog": self._of_catalog, "index": self._of_index}
        is_up = GaugeMetricFamily("gircse_part_up", "Whether a part responds.", labels=["part"])
        for name, collect_part in parts.items():
            try:
                yield from collect_part()
            except (GircseError, OSError):
                is_up.add_metric([name], 0)
            else:
                is_up.add_metric([name], 1)
        yield is_up
        yield _gauge("gircse_worker_up", "Whether a worker runs on the home of this server.", self._is_worker_there())

    def _of_catalog(self) -> list[Metric]:
        counts = self._catalog.job_counts()
        age = self._catalog.queue_age()
        collections = self._catalog.collections()
        jobs = GaugeMetricFamily("gircse_jobs", "Jobs, by state.", labels=["state"])
        for state in JobState:
            jobs.add_metric([state.value], counts.get(state, 0))
        return [
            jobs,
            _gauge("gircse_queue_depth", "Jobs that wait for a worker.", counts.get(JobState.QUEUED, 0)),
            _gauge(
                "gircse_queue_age_seconds", "How long the first job in the queue has been due.", age.total_seconds()
            ),
            _gauge("gircse_collections", "Collections.", len(collections)),
            _gauge(
                "gircse_documents",
                "Documents of all collections.",
                sum(collection.document_count for collection in collections),
            ),
            _gauge(
                "gircse_chunks",
                "Chunks of all collections.",
                sum(collection.chunk_count for collection in collections),
            ),
        ]

    def _of_index(self) -> list[Metric]:
        size = self._size
        if size is None or time.monotonic() - size.seconds > _LOOK_AGAIN_S:
            names = self._index.indexes()
            size = _Size(time.monotonic(), sum(self._index.condition(name).points for name in names), len(names))
            self._size = size
        return [
            _gauge("gircse_index_points", "Points of all indexes, including unfinished ones.", size.points),
            _gauge("gircse_indexes", "Indexes, including unfinished ones.", size.indexes),
        ]


def _gauge(name: str, description: str, value: float) -> Metric:
    return GaugeMetricFamily(name, description, value=float(value))
