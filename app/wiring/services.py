"""All services of the house, and the worker that fills it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.blobs import FolderBlobStore
from app.library import Library
from app.search import SearchService
from app.services import Services
from app.settings import Settings
from app.types import Collection
from app.wiring.embedding import LocalEmbedder
from app.wiring.storage import open_catalog, open_index
from ingest.pipeline import IngestPipeline
from ingest.readers import read_document
from ingest.sources import find_files
from ingest.splitter import TokenSplitter
from ingest.worker import Worker

__all__ = ["find_files", "open_services", "run_worker"]


@contextmanager
def open_services(settings: Settings) -> Iterator[Services]:
    embedder = LocalEmbedder(settings.model, device=settings.device)
    blobs = FolderBlobStore(settings.home / "files")
    with open_catalog(settings) as catalog, open_index(settings) as index:
        yield Services(
            settings=settings,
            catalog=catalog,
            index=index,
            blobs=blobs,
            embedder=embedder,
            token_counter=embedder,
            search=SearchService(catalog, index, embedder),
            library=Library(catalog=catalog, index=index, blobs=blobs, embedder=embedder),
            checks={
                "catalog": catalog.is_alive,
                "index": index.is_alive,
                "embedder": lambda: bool(embedder.embed_query("ready?", instruction="", steps=1).vector),
            },
        )


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
