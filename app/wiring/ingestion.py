"""The worker over the services, and the files that it can read."""

from __future__ import annotations

import logging
import os
import socket
import threading
from datetime import timedelta

from app.errors import GircseError
from app.ports import Embedder
from app.services import Services
from app.types import Collection
from ingest.pipeline import IngestPipeline
from ingest.readers import ProcessReader
from ingest.sources import find_files
from ingest.splitter import TokenSplitter
from ingest.worker import Worker

__all__ = ["find_files", "run_worker"]

log = logging.getLogger(__name__)

_MODEL_POLL_S = 2.0


def run_worker(services: Services, stop: threading.Event) -> None:
    """Works off the ledger until `stop` is set, once the model is there."""

    def splitter_for(collection: Collection) -> TokenSplitter:
        return TokenSplitter(
            services.token_counter, max_tokens=collection.chunk_tokens, overlap=collection.chunk_overlap
        )

    with ProcessReader(is_stopping=stop.is_set) as read:
        pipeline = IngestPipeline(
            catalog=services.catalog,
            blobs=services.blobs,
            index=services.index,
            embedder=services.embedder,
            read=read,
            splitter_for=splitter_for,
        )
        owner = f"{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
        lease = timedelta(seconds=services.settings.lease_s)
        if _model_is_there(services.embedder, stop):
            Worker(catalog=services.catalog, pipeline=pipeline, owner=owner, lease=lease).run(stop)


def _model_is_there(embedder: Embedder, stop: threading.Event) -> bool:
    """Loads the model before any job is claimed: without it every job would fail. False when stopped before that."""
    told = ""
    while not stop.is_set():
        try:
            log.info("The worker has the model %s", embedder.model_name)
        except GircseError as error:
            if str(error) != told:
                told = str(error)
                log.warning("The worker waits for its model, and the jobs with it: %s", told)
            stop.wait(_MODEL_POLL_S)
        else:
            return True
    return False
