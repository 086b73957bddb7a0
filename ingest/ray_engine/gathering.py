"""Collects the results of one document until it is complete."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from app.ports.ledger import IngestedDocument
from app.types.documents import Chunk, Job
from ingest.ray_engine.results import IndexedChunks, IndexedDocument
from ingest.spooled_files import SpooledChunks


class GatheredDocument:
    """Chunks arrive in order, but start again at the first after a broken run. Close it once the document is
    recorded."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._found: IndexedDocument | None = None
        self._opened = ExitStack()
        self._chunks = self._opened.enter_context(SpooledChunks(job.document_id))
        self._count = 0

    @property
    def is_whole(self) -> bool:
        return self._found is not None

    def add(self, result: IndexedChunks | IndexedDocument) -> None:
        if isinstance(result, IndexedDocument):
            self._found = result
            return
        self._write(result.chunks)

    def _write(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            if chunk.ordinal == self._count:
                self._chunks.write(chunk)
                self._count += 1

    @property
    def document(self) -> IngestedDocument:
        """The document; its chunks can be read in order until `close`."""
        assert self._found is not None  # only asked for once is_whole
        return IngestedDocument(self._found.title, self._found.metadata, self._chunks)

    def close(self) -> None:
        self._opened.close()
