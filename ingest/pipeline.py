"""Does one job of the ledger: read, split, diff by text hash, embed only what is new, write points, mark it done.

Every step can be repeated, and the index itself says what is there: a job that was killed anywhere is simply run
again. It knows the ports only: no SQL, no Qdrant, no model.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from app.errors import DocumentError
from app.fingerprints import require_same_model
from app.point_ids import PointIds
from app.ports import BlobStore, Catalog, Embedder, Reader, Splitter, VectorIndex
from app.removals import delete_points_of, remove_unneeded
from app.types import (
    Chunk,
    Collection,
    Document,
    ExtractedText,
    Findings,
    Job,
    JobKind,
    Metadata,
    Span,
    TextPart,
)
from ingest.points import IngestReport, PointWriter
from ingest.spools import ChunkSpool, TextSpool

log = logging.getLogger(__name__)

Heartbeat = Callable[[float], None]  # takes the progress, 0 to 1; raises when the job is to be left

_READ_PROGRESS = 0.05  # of the whole job; embedding takes nearly all of it


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """`chunks` can be read as often as is wanted, until the block of `index_document` ends."""

    title: str
    metadata: Metadata
    chunks: Iterable[Chunk]
    report: IngestReport


class IngestPipeline:
    """Safe to use from several threads. A document is held in parts of bounded size, however long it is.

    `splitter_for` gives the splitter with the chunk size and overlap that a collection was made with. In
    `spool_folder` (None: the system's own) long documents lie while they are worked on.
    """

    def __init__(
        self,
        *,
        catalog: Catalog,
        blobs: BlobStore,
        index: VectorIndex,
        embedder: Embedder,
        read: Reader,
        splitter_for: Callable[[Collection], Splitter],
        batch_size: int = 64,
        spool_folder: Path | None = None,
    ) -> None:
        self._catalog = catalog
        self._blobs = blobs
        self._index = index
        self._embedder = embedder
        self._read = read
        self._splitter_for = splitter_for
        self._batch_size = batch_size
        self._spool_folder = spool_folder

    def run(self, job: Job, *, heartbeat: Heartbeat) -> IngestReport:
        """Raises DocumentError or another GircseError with a reason that a person can act on."""
        collection = self._catalog.collection(job.collection)
        if job.kind is JobKind.DELETE:
            return self._delete(job, collection, heartbeat)
        document = self._catalog.document(job.document_id)
        with self.index_document(document, collection, heartbeat=heartbeat) as indexed:
            self._catalog.complete_ingest(job, title=indexed.title, metadata=indexed.metadata, chunks=indexed.chunks)
        if document.revision > 1:  # the file of the version before
            self._remove_unneeded()
        return indexed.report

    @contextmanager
    def index_document(
        self, document: Document, collection: Collection, *, heartbeat: Heartbeat
    ) -> Iterator[IndexedDocument]:
        """Makes its points in the active index of `collection` what they should be. Records nothing in the catalog."""
        require_same_model(collection, self._embedder)
        folder = self._spool_folder
        with TextSpool(folder) as text, ChunkSpool(document.id, folder) as chunks:
            # Read whole before the first write, so that a document that cannot be read leaves the index as it is.
            found = read_text(document, text, blobs=self._blobs, read=self._read, heartbeat=heartbeat)
            title, metadata = describe(document, found)
            position = 0

            def report_progress() -> None:
                heartbeat(_READ_PROGRESS + (1 - _READ_PROGRESS) * position / text.character_count)

            writer = PointWriter(
                index=self._index,
                embedder=self._embedder,
                collection=collection,
                document_id=document.id,
                batch_size=self._batch_size,
                heartbeat=report_progress,
            )
            for chunk in make_chunks(document, split_text(text, self._splitter_for(collection))):
                position = chunk.end
                chunks.write(chunk)
                writer.write(chunk, make_payload(document, chunk, title, metadata))
            position = text.character_count
            yield IndexedDocument(title, metadata, chunks, writer.finish())

    def _delete(self, job: Job, collection: Collection, heartbeat: Heartbeat) -> IngestReport:
        count = 0
        for name in self._catalog.index_names(collection.name):
            heartbeat(_READ_PROGRESS)
            count += delete_points_of(self._index, name, job.document_id)
        self._catalog.complete_delete(job)
        self._remove_unneeded()
        return IngestReport(deleted=count)

    def _remove_unneeded(self) -> None:
        remove_unneeded(catalog=self._catalog, index=self._index, blobs=self._blobs)


def read_text(document: Document, text: TextSpool, *, blobs: BlobStore, read: Reader, heartbeat: Heartbeat) -> Findings:
    """Reads the stored file into `text`, and keeps that beside it."""
    sink = _ProgressingSink(text, document, heartbeat)

    def attempt() -> Findings:
        sink.clear()
        path = blobs.locate(document.content_hash)
        return read(path, uri=document.uri, media_type=document.media_type, into=sink)

    try:
        found = attempt()
    except FileNotFoundError:  # it was put aside, or back, at this moment
        found = attempt()
    if not text.has_text:
        raise DocumentError(f"No text was found in {document.uri}: it is empty, or holds only images.")
    heartbeat(_READ_PROGRESS)
    blobs.put_text(document.content_hash, _interruptible(text.parts(), heartbeat))
    return found


def _interruptible(parts: Iterator[str], heartbeat: Heartbeat) -> Iterator[str]:
    for number, part in enumerate(parts):
        if number:
            heartbeat(_READ_PROGRESS)
        yield part


def describe(document: Document, found: Findings) -> tuple[str, Metadata]:
    """Title and metadata: what the person said about the document wins over what the reader found."""
    return document.title or found.title or document.uri, {**found.metadata, **document.metadata}


class _ProgressingSink:
    """Tells between two parts how much of the document they are, in bytes."""

    def __init__(self, text: TextSpool, document: Document, heartbeat: Heartbeat) -> None:
        self._text = text
        self._byte_count = document.byte_count
        self._heartbeat = heartbeat

    def write(self, part: TextPart) -> None:
        if read := self._text.byte_count:
            self._heartbeat(_READ_PROGRESS * min(1.0, read / max(1, self._byte_count)))
        self._text.write(part)

    def clear(self) -> None:
        self._text.clear()


def split_text(text: TextSpool, split: Splitter) -> Iterator[Span]:
    """Of the whole text, though each part is split by itself."""
    begin = 0
    for part in text.parts():
        # Pages that began before this part count, too.
        pages = [page - begin for page in text.page_starts]
        for span in split(ExtractedText(part, title="", media_type="", page_starts=pages)):
            yield replace(span, start=begin + span.start, end=begin + span.end)
        begin += len(part)


def make_chunks(document: Document, spans: Iterable[Span]) -> Iterator[Chunk]:
    """Chunks whose ids depend on the text alone, so that text which only moved keeps its point."""
    point_ids = PointIds(document.collection, document.id)
    for ordinal, span in enumerate(spans):
        text_hash = hashlib.sha256(span.text.encode("utf-8", "surrogatepass")).hexdigest()
        yield Chunk(
            id=point_ids.next(text_hash),
            document_id=document.id,
            ordinal=ordinal,
            text=span.text,
            text_hash=text_hash,
            start=span.start,
            end=span.end,
            page=span.page,
        )


def make_payload(document: Document, chunk: Chunk, title: str, metadata: Metadata) -> dict[str, object]:
    """LangChain's Qdrant convention, so that its QdrantVectorStore reads our collections."""
    return {
        "page_content": chunk.text,
        "metadata": {
            **metadata,
            "document_id": document.id,
            "title": title,
            "uri": document.uri,
            "ordinal": chunk.ordinal,
            "start": chunk.start,
            "end": chunk.end,
            "page": chunk.page,
            "text_hash": chunk.text_hash,
        },
    }
