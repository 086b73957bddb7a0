"""Gathers what came back of a document until it is whole."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from app.ports.ledger import IngestedDocument
from app.types.documents import Chunk, Job
from ingest.ray_engine.results import IndexedChunks, IndexedDocument
from ingest.spooled_files import SpooledChunks


class GatheredDocument:
    """Chunks come in their order, but again from the first where a run broke. Close it when it is recorded."""

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
        """Its chunks can be read, in their order, until it is closed."""
        assert self._found is not None  # it is whole
        return IngestedDocument(self._found.title, self._found.metadata, self._chunks)

    def close(self) -> None:
        self._opened.close()
