"""Does one job of the ledger: read, split, diff by text hash, embed only what is new, write points, mark it done.

Every step can be repeated, and the index itself says what is there: a job that was killed anywhere is simply run
again. It knows the ports only: no SQL, no Qdrant, no model.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.errors import DocumentError
from app.fingerprints import require_same_model
from app.point_ids import PointIds
from app.ports import BlobStore, Catalog, Embedder, Reader, Splitter, VectorIndex
from app.removals import delete_points_of, remove_unneeded
from app.types import Chunk, Collection, Document, ExtractedText, Job, JobKind, Metadata, Point, Span

log = logging.getLogger(__name__)

Heartbeat = Callable[[float], None]  # takes the progress, 0 to 1; raises when the job is to be left

_READ_PROGRESS = 0.05  # of the whole job; embedding takes nearly all of it
_PAYLOAD_BATCH_SIZE = 256


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Chunks that were embedded, chunks that kept their vector, and points that were removed."""

    embedded: int = 0
    reused: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    title: str
    metadata: Metadata
    chunks: Sequence[Chunk]
    report: IngestReport


class IngestPipeline:
    """`splitter_for` gives the splitter with the chunk size and overlap that a collection was made with."""

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
    ) -> None:
        self._catalog = catalog
        self._blobs = blobs
        self._index = index
        self._embedder = embedder
        self._read = read
        self._splitter_for = splitter_for
        self._batch_size = batch_size

    def run(self, job: Job, *, heartbeat: Heartbeat) -> IngestReport:
        """Raises DocumentError or another GircseError with a reason that a person can act on."""
        collection = self._catalog.collection(job.collection)
        if job.kind is JobKind.DELETE:
            return self._delete(job, collection, heartbeat)
        document = self._catalog.document(job.document_id)
        indexed = self.index_document(document, collection, heartbeat=heartbeat)
        self._catalog.complete_ingest(job, title=indexed.title, metadata=indexed.metadata, chunks=indexed.chunks)
        if document.revision > 1:  # the file of the version before
            self._remove_unneeded()
        return indexed.report

    def index_document(self, document: Document, collection: Collection, *, heartbeat: Heartbeat) -> IndexedDocument:
        """Makes its points in the active index of `collection` what they should be. Records nothing in the catalog."""
        require_same_model(collection, self._embedder)
        extracted = self._extract(document)
        heartbeat(_READ_PROGRESS)
        chunks = make_chunks(document, self._splitter_for(collection)(extracted))
        # The reader's findings come first: what the person said about the document wins.
        title = document.title or extracted.title or document.uri
        metadata = {**extracted.metadata, **document.metadata}
        payloads = {chunk.id: make_payload(document, chunk, title, metadata) for chunk in chunks}
        report = self._write(collection, document, chunks, payloads, heartbeat)
        return IndexedDocument(title, metadata, chunks, report)

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

    def _extract(self, document: Document) -> ExtractedText:
        data = self._blobs.get(document.content_hash)
        extracted = self._read(data, uri=document.uri, media_type=document.media_type)
        if not extracted.text.strip():
            raise DocumentError(f"No text was found in {document.uri}: it is empty, or holds only images.")
        self._blobs.put_text(document.content_hash, extracted.text)
        return extracted

    def _write(
        self,
        collection: Collection,
        document: Document,
        chunks: Sequence[Chunk],
        payloads: dict[str, dict[str, object]],
        heartbeat: Heartbeat,
    ) -> IngestReport:
        """Makes the points of the document what `chunks` says."""
        index = collection.active_index
        present = set(self._index.point_ids(index, document_id=document.id))
        new = [chunk for chunk in chunks if chunk.id not in present]
        for start in range(0, len(new), self._batch_size):
            batch = new[start : start + self._batch_size]
            vectors = self._embed(collection, batch)
            heartbeat(_READ_PROGRESS + (1 - _READ_PROGRESS) * start / len(new))  # still ours? then write
            points = [Point(c.id, vector, payloads[c.id]) for c, vector in zip(batch, vectors, strict=True)]
            self._index.upsert(index, points)
        kept = [chunk.id for chunk in chunks if chunk.id in present]
        for start in range(0, len(kept), _PAYLOAD_BATCH_SIZE):
            heartbeat(1.0)
            ids = kept[start : start + _PAYLOAD_BATCH_SIZE]
            self._index.set_payloads(index, {point_id: payloads[point_id] for point_id in ids})
        stale = sorted(present - payloads.keys())
        heartbeat(1.0)
        if stale:
            self._index.delete_points(index, stale)
        return IngestReport(embedded=len(new), reused=len(kept), deleted=len(stale))

    def _embed(self, collection: Collection, chunks: Sequence[Chunk]) -> list[list[float]]:
        vectors = self._embedder.embed_documents(
            [chunk.text for chunk in chunks],
            instruction=collection.document_instruction,
            steps=collection.document_steps,
        )
        for chunk, vector in zip(chunks, vectors, strict=True):
            if len(vector) != collection.dimension or not all(math.isfinite(value) for value in vector):
                raise ValueError(
                    f"The model {self._embedder.model_name} gave no usable vector for characters {chunk.start} to "
                    f"{chunk.end}: {len(vector)} values, of which {sum(map(math.isfinite, vector))} are finite."
                )
        return vectors


def make_chunks(document: Document, spans: Sequence[Span]) -> list[Chunk]:
    """Chunks whose ids depend on the text alone, so that text which only moved keeps its point."""
    point_ids = PointIds(document.collection, document.id)
    chunks = []
    for ordinal, span in enumerate(spans):
        text_hash = hashlib.sha256(span.text.encode("utf-8", "surrogatepass")).hexdigest()
        chunks.append(
            Chunk(
                id=point_ids.next(text_hash),
                document_id=document.id,
                ordinal=ordinal,
                text=span.text,
                text_hash=text_hash,
                start=span.start,
                end=span.end,
                page=span.page,
            )
        )
    return chunks


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
