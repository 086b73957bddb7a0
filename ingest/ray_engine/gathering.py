"""Gathers what came back of a document, in any order, until it is whole."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from app.types.documents import Chunk, Job
from ingest.ray_engine.rows import ChunkRow, DocumentRow
from ingest.spooled_files import SpooledChunks

_BEGUN, _NEARLY = 0.01, 0.99


class GatheredDocument:
    """Rows may come twice, where a task of the cluster was repeated. Close it when the document is recorded."""

    def __init__(self, job: Job, byte_count: int) -> None:
        self.job = job
        self._byte_count = byte_count
        self._end = 0  # of the farthest chunk
        self.found: DocumentRow | None = None
        self._opened = ExitStack()
        self._chunks = self._opened.enter_context(SpooledChunks(job.document_id))
        self._count = 0  # chunks written so far, without a gap
        self._ahead: dict[int, Chunk] = {}

    @property
    def is_whole(self) -> bool:
        return self.found is not None and self._count == self.found.chunk_count

    @property
    def progress(self) -> float:
        """About, for a document has as many characters as bytes at most. Never 0, since it is begun."""
        return max(_BEGUN, min(_NEARLY, self._end / max(1, self._byte_count)))

    @property
    def chunks(self) -> Iterable[Chunk]:
        """In their order; can be read as often as is wanted."""
        return self._chunks

    def add(self, row: ChunkRow | DocumentRow) -> None:
        if isinstance(row, DocumentRow):
            self.found = row
            return
        self._end = max(self._end, row.chunk.end)
        if row.chunk.ordinal >= self._count:
            self._ahead[row.chunk.ordinal] = row.chunk
        while (chunk := self._ahead.pop(self._count, None)) is not None:
            self._chunks.write(chunk)
            self._count += 1

    def close(self) -> None:
        self._opened.close()
