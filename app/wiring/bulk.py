"""Bulk ingestion on Ray over the services. To be imported only where the extra `[ray]` is installed."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

from app.blobs import FolderBlobStore
from app.services import Services
from app.settings import Settings
from app.types import Collection, Job
from app.vectors import QdrantVectorIndex
from app.wiring.embedding import LocalEmbedder, LocalTokenCounter
from app.wiring.ingestion import open_pipeline, process_limits_of, read_limits
from app.wiring.storage import open_index
from ingest.ray_engine.cluster import open_cluster, require_one_machine
from ingest.ray_engine.engine import ShardEngine
from ingest.ray_engine.pipeline import RayPipeline
from ingest.readers import ProcessReader
from ingest.splitter import TokenSplitter

_opened = ExitStack()  # of a process of the cluster; ends with it, and what it holds sees that by its pipes


@dataclass(frozen=True, slots=True)
class SettingsParts:
    """Implements `NodeParts`: the settings travel, and every process opens its parts by them."""

    settings: Settings
    device: str | None

    def blobs(self) -> FolderBlobStore:
        return FolderBlobStore(self.settings.home / "files")

    def index(self) -> QdrantVectorIndex:
        return _index(self.settings)

    def embedder(self) -> LocalEmbedder:
        return _embedder(self.settings.model, self.device)

    def reader(self) -> ProcessReader:
        return _reader(self.settings)

    def splitter(self, collection: Collection) -> TokenSplitter:
        counter = _token_counter(self.settings.model)
        return TokenSplitter(counter, max_tokens=collection.chunk_tokens, overlap=collection.chunk_overlap)


@cache
def _index(settings: Settings) -> QdrantVectorIndex:
    return _opened.enter_context(open_index(settings))


@cache
def _embedder(model: str, device: str | None) -> LocalEmbedder:
    return LocalEmbedder(model, device=device)


@cache
def _token_counter(model: str) -> LocalTokenCounter:
    return LocalTokenCounter(model)


@cache
def _reader(settings: Settings) -> ProcessReader:
    return _opened.enter_context(
        ProcessReader(limits=read_limits(settings), process_limits=process_limits_of(settings))
    )


@contextmanager
def open_engine(services: Services) -> Iterator[Callable[[str, threading.Event], None]]:
    """What works off the jobs of a collection on the cluster, until the event is set."""
    settings = services.settings
    use_gpus = not (settings.device or "cuda").startswith("cpu")
    with (
        open_cluster(settings.ray_address) as cluster,
        open_pipeline(services, is_stopping=lambda: False) as pipeline,
    ):
        if settings.qdrant_url is None:
            require_one_machine()
        lease = timedelta(seconds=settings.lease_s)

        def delete(job: Job) -> None:
            pipeline.run(job, heartbeat=lambda done: services.catalog.heartbeat(job, lease=lease, progress=done))

        # Each actor sees the one GPU that it was given.
        device = "cuda" if use_gpus and cluster.has_gpus else settings.device
        engine = ShardEngine(
            catalog=services.catalog,
            index=services.index,
            blobs=services.blobs,
            pipeline=RayPipeline(SettingsParts(settings, device), use_gpus=use_gpus),
            delete=delete,
            owner=f"{socket.gethostname()}-{os.getpid()}-ray",
            lease=lease,
            shard_documents=settings.shard_documents,
        )
        yield engine.run
