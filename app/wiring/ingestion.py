"""The worker over the services, and the files that it can read."""

from __future__ import annotations

import os
import socket
import threading

from app.services import Services
from app.types import Collection
from ingest.pipeline import IngestPipeline
from ingest.readers import read_document
from ingest.sources import find_files
from ingest.splitter import TokenSplitter
from ingest.worker import Worker

__all__ = ["find_files", "run_worker"]


def run_worker(services: Services, stop: threading.Event) -> None:
    """Works off the ledger until `stop` is set."""

    def splitter_for(collection: Collection) -> TokenSplitter:
        return TokenSplitter(
            services.token_counter, max_tokens=collection.chunk_tokens, overlap=collection.chunk_overlap
        )

    pipeline = IngestPipeline(
        catalog=services.catalog,
        blobs=services.blobs,
        index=services.index,
        embedder=services.embedder,
        read=read_document,
        splitter_for=splitter_for,
    )
    owner = f"{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    Worker(catalog=services.catalog, pipeline=pipeline, owner=owner).run(stop)
