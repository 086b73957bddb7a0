"""Builds the ingestion pipeline, the worker and the reindexer from the services."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from math import ceil

from app.collections.lens_indexing import LensIndexer, queue_outdated
from app.collections.standing import StandingCompletion
from app.errors import GircseError, UnavailableError
from app.maintenance.background_reindex import StoppedError
from app.maintenance.reindex import Reindexer
from app.ports.parts import Embedder
from app.runtime.memory import release_memory
from app.runtime.thread_switching import set_switch_interval
from app.services import Services
from app.settings import Settings
from app.wiring.embedding import LocalEmbedder
from app.wiring.recurring import syncing_sources
from app.wiring.standing import delivering_alerts
from ingest.pipeline import IngestPipeline
from ingest.readers import ProcessLimits, ProcessReader, ReadLimits
from ingest.readers.limits import MEGABYTE
from ingest.splitters import splitter_of
from ingest.worker import SMALL_BYTES, Worker
from ingest.worker_slots import CPU_PATIENCE_S, DEFAULT_SLOTS, WorkerSlots

log = logging.getLogger(__name__)

_MODEL_POLL_S = 2.0


@contextmanager
def open_pipeline(
    services: Services, *, is_stopping: Callable[[], bool], before_embedding: Callable[[], None] = lambda: None
) -> Iterator[IngestPipeline]:
    """The ingestion pipeline. Its parser runs in a child process, which ends with the block."""

    settings = services.settings
    embedder = services.embedder.for_ingestion(is_stopping)
    with reader_of(settings, is_stopping=is_stopping) as read:
        yield IngestPipeline(
            catalog=services.catalog,
            blobs=services.blobs,
            index=services.index,
            lens_indexing=LensIndexer(catalog=services.catalog, index=services.index, embedder=embedder),
            embedder=embedder,
            read=read,
            splitter_for=lambda collection: splitter_of(collection, services.token_counter),
            temporary_folder=settings.home,
            complete=StandingCompletion(services.catalog, services.index, embedder),
            before_embedding=before_embedding,
        )


def reader_of(settings: Settings, *, is_stopping: Callable[[], bool]) -> ProcessReader:
    """The parser process. Use it in a `with` block; the process ends with it."""
    process_limits = ProcessLimits(
        wall_s=settings.read_timeout_s,
        cpu_s=ceil(settings.read_timeout_s * 2 / 3),
        memory_bytes=int(settings.read_memory_mb * MEGABYTE),
    )
    return ProcessReader(limits=read_limits(settings), process_limits=process_limits, is_stopping=is_stopping)


def read_limits(settings: Settings) -> ReadLimits:
    return ReadLimits(
        max_bytes=int(settings.max_document_mb * MEGABYTE),
        max_expanded_bytes=int(settings.max_unpacked_mb * MEGABYTE),
        max_pages=settings.max_document_pages,
        max_characters=settings.max_document_characters,
        max_recognized_pages=settings.max_recognized_pages,
    )


def run_worker(services: Services, stop: threading.Event) -> None:
    """Wait for the model, then run queued jobs until `stop` is set."""
    slots = WorkerSlots(DEFAULT_SLOTS)

    def is_stopping() -> bool:
        return stop.is_set() or slots.is_leaving()

    with open_pipeline(services, is_stopping=is_stopping, before_embedding=slots.note_read) as pipeline:
        if not _load_until_available(services.embedder, stop):
            return
        if isinstance(services.embedder, LocalEmbedder) and services.embedder.is_on_cpu:
            slots.patience_s = CPU_PATIENCE_S
            set_switch_interval()
        _catch_up(services)
        owner = f"{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
        lease = timedelta(seconds=services.settings.lease_s)
        with delivering_alerts(services, stop), syncing_sources(services, stop):
            Worker(
                catalog=services.catalog,
                pipeline=pipeline,
                owner=owner,
                lease=lease,
                slots=slots,
                observer=services.metrics,
                when_idle=partial(_release_memory, services),
            ).run(stop)


def _release_memory(services: Services) -> None:
    if isinstance(services.embedder, LocalEmbedder):
        services.embedder.release_spare_memory()
    release_memory()


def _catch_up(services: Services) -> None:
    """Collect garbage left by a crash, and queue lens indexes of earlier releases for a rebuild.

    If a component is unavailable, this is skipped: the next deletion collects the garbage, the next start queues the
    rebuilds.
    """
    try:
        services.library.remove_unneeded()
        if outdated := queue_outdated(services.catalog):
            log.info("Rebuilding lens indexes of %d collections: this release computes values differently", outdated)
    except UnavailableError as error:
        log.warning("Garbage of deletions could not be removed yet: %s", error)


def _load_until_available(embedder: Embedder, stop: threading.Event) -> bool:
    """Load the model, retrying until it works. Returns False if stopped before.

    Jobs must not be claimed earlier: without the model each of them would fail.
    """
    logged = ""
    while not stop.is_set():
        try:
            log.info("The worker uses the model %s", embedder.info.name)
        except GircseError as error:
            if str(error) != logged:
                logged = str(error)
                log.warning("The worker and its jobs are waiting for the model: %s", logged)
            stop.wait(_MODEL_POLL_S)
        else:
            return True
    return False


@contextmanager
def open_reindexer(services: Services, *, is_stopping: Callable[[], bool] = lambda: False) -> Iterator[Reindexer]:
    """A reindexer. When `is_stopping` returns True, a running build raises StoppedError between two batches."""

    def heartbeat(*_: object) -> None:
        if is_stopping():
            raise StoppedError

    with open_pipeline(services, is_stopping=is_stopping) as pipeline:
        yield Reindexer(
            catalog=services.catalog,
            index=services.index,
            blobs=services.blobs,
            embedder=services.embedder,
            index_documents=partial(pipeline.index_documents, heartbeat=heartbeat),
            small_bytes=SMALL_BYTES,
        )
