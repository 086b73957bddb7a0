"""Indexing anew in the background, with the parts of toy services."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from app.maintenance.background_reindex import BackgroundReindexing
from app.maintenance.reindex import Reindexer


def toy_reindexing(toy_services: Any) -> BackgroundReindexing:
    """The caller closes it."""
    services = toy_services.services

    @contextmanager
    def open_reindexer(is_stopping: Any) -> Iterator[Reindexer]:
        yield Reindexer(
            catalog=services.catalog,
            index=services.index,
            blobs=services.blobs,
            embedder=services.embedder,
            index_documents=lambda documents, collection: toy_services.pipeline.index_documents(
                documents, collection, heartbeat=lambda *_: None
            ),
            small_bytes=0,
        )

    return BackgroundReindexing(services.catalog, open_reindexer=open_reindexer)
