"""Opens the vector index. Separate from the catalog, since importing qdrant_client takes a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from app.edge import EdgeProcess, edge_folder
from app.settings import Settings
from app.vectors import QdrantVectorIndex, Sharding


@contextmanager
def open_index(settings: Settings, *, edge: EdgeProcess | None = None) -> Iterator[QdrantVectorIndex]:
    """Connect to the Qdrant server of the settings, or else to the embedded engine, which is started if necessary.

    `edge` is an embedded engine that may still be starting.
    """
    with ExitStack() as opened:
        if settings.qdrant_url is None:
            engine = opened.enter_context(edge or EdgeProcess(edge_folder(settings.home)))
            index = QdrantVectorIndex.over_edge(engine, quantization=settings.quantization)
        else:
            key = settings.qdrant_api_key
            index = QdrantVectorIndex.at(
                settings.qdrant_url,
                api_key=key.get_secret_value() if key else None,
                quantization=settings.quantization,
                sharding=Sharding(shards=settings.qdrant_shards, replicas=settings.qdrant_replicas),
            )
        opened.callback(index.close)
        yield index
