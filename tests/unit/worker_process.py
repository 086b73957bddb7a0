"""A worker as a process, for tests that stop it: `python worker_process.py HOME LEASE_S SECONDS_PER_CHUNK`."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from ingest_parts import IngestParts
from qdrant_client import QdrantClient

from app.testing import ToyEmbedder
from app.vectors import QdrantVectorIndex
from ingest.worker import Worker


class SlowEmbedder(ToyEmbedder):
    seconds_per_text = 0.0

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        time.sleep(self.seconds_per_text * len(texts))
        return super().embed_documents(texts, instruction=instruction, steps=steps)


def open_parts(home: Path) -> IngestParts:
    """With an index that outlives the process."""
    return IngestParts.open(home, QdrantVectorIndex(QdrantClient(path=str(home / "qdrant"))))


def main(home: str, lease_s: str, seconds_per_chunk: str) -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    embedder = SlowEmbedder()
    embedder.seconds_per_text = float(seconds_per_chunk)
    parts = open_parts(Path(home))
    lease = timedelta(seconds=float(lease_s))
    pipeline = parts.pipeline(embedder, batch_size=1)
    Worker(catalog=parts.catalog, pipeline=pipeline, owner="process", lease=lease, poll_s=0.05).run(stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
