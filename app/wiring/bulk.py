"""Bulk ingestion on Ray. Import it only if the extra `[ray]` is installed."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from app.collections.standing import StandingCompletion
from app.services import Services
from app.types.documents import Job
from app.wiring.embedders import tokenizer_for
from app.wiring.ingestion import open_pipeline
from app.wiring.nodes import SettingsParts
from ingest.ray_engine.cluster import has_gpus, open_cluster, require_one_machine
from ingest.ray_engine.engine import ShardEngine
from ingest.ray_engine.runs import RayCluster


@dataclass(frozen=True, slots=True)
class BulkEngine:
    """Bulk ingestion on a Ray cluster. `run` runs the jobs of a collection until the event is set. Models load in the
    background, once per actor; `wait_until_loaded` waits for a number of them."""

    run: Callable[[str, threading.Event], None]
    wait_until_loaded: Callable[[int], None]


@contextmanager
def open_engine(services: Services) -> Iterator[BulkEngine]:
    settings = services.settings
    use_gpus = settings.embedder_url is None and not (settings.device or "cuda").startswith("cpu")
    with (
        open_cluster(settings.ray_address),
        open_pipeline(services, is_stopping=lambda: False) as pipeline,
    ):
        if settings.qdrant_url is None:
            require_one_machine()
        lease = timedelta(seconds=settings.lease_s)

        def delete(job: Job) -> None:
            pipeline.run(job, heartbeat=lambda done: services.catalog.heartbeat(job, lease=lease, progress=done))

        # Each actor sees only the GPU assigned to it.
        device = "cuda" if use_gpus and has_gpus() else settings.device
        cluster = RayCluster(SettingsParts(settings, device, tokenizer_for(settings)), use_gpus=use_gpus)
        engine = ShardEngine(
            catalog=services.catalog,
            index=services.index,
            blobs=services.blobs,
            cluster=cluster,
            delete=delete,
            complete=StandingCompletion(services.catalog, services.index, services.embedder),
            owner=f"{socket.gethostname()}-{os.getpid()}-ray",
            lease=lease,
            shard_documents=settings.shard_documents,
        )
        yield BulkEngine(engine.run, cluster.wait_until_loaded)
