"""Indexes documents: parse, split, compare chunks by text hash, embed only new ones, write.

Every step can be repeated: the index itself shows which points are present. This module uses ports only: no SQL, no
Qdrant, no model, no jobs. So a cluster node runs it exactly as a worker does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from app.errors import DocumentError, GircseError, UnavailableError
from app.ports.ledger import IngestedDocument
from app.ports.parts import BlobBatch, BlobStore, Embedder, LensIndexing, VectorIndex
from app.ports.texts import Reader, Splitter
from app.search.fingerprints import require_same_model
from app.types.chunk_text import CONTEXT_KEY, KIND_KEY, PAGE_STARTS_KEY, hash_of_text, with_context
from app.types.documents import READ_PROGRESS, Chunk, ChunkKind, Collection, Document, Metadata
from app.types.metadata_keys import derived_metadata
from app.types.point_ids import PointIds
from app.types.texts import ExtractedText, Findings, Span, TextPart
from ingest.headings import HeadingPath, context_of
from ingest.points import IngestReport, PointWriter
from ingest.readers.skipped import Skipped
from ingest.spooled_files import SpooledChunks, SpooledText

Heartbeat = Callable[[float], None]  # takes the progress, 0 to 1; raises when work on the document must stop


@dataclass(frozen=True, slots=True)
class Indexed:
    """The result of an `index_documents` call, by document id: documents and reports, and the errors of those left out.

    Chunks can be read until the block of `index_documents` ends.
    """

    documents: Mapping[str, IngestedDocument]
    reports: Mapping[str, IngestReport]
    left: Mapping[str, GircseError]

    def of(self, document_id: str) -> IngestedDocument:
        """The indexed document. Raises the error that kept it out of the index."""
        if document_id in self.left:
            raise self.left[document_id]
        return self.documents[document_id]


@dataclass(kw_only=True, eq=False)
class DocumentIndexer:
    """Brings the index in line with the content of documents. Thread-safe. Holds a document in parts of bounded size,
    however long it is.

    `splitter_for` returns the splitter with the chunk size and overlap of a collection. Long documents are kept in
    temporary files in `temporary_folder` (None: the system's own). Chunks of a single document are embedded and written
    in batches of `batch_size`; those of several documents in batches of `block_batch_size`, because their chunk lengths
    differ and the model batches better when it can choose among more. `before_embedding` is called in the indexing
    thread before each call of the model.
    """

    blobs: BlobStore
    index: VectorIndex
    lens_indexing: LensIndexing
    embedder: Embedder
    read: Reader
    splitter_for: Callable[[Collection], Splitter]
    batch_size: int = 64
    block_batch_size: int = 384
    temporary_folder: Path | None = None
    before_embedding: Callable[[], None] = lambda: None

    @contextmanager
    def index_documents(
        self, documents: Sequence[Document], collection: Collection, *, heartbeat: Callable[[Document, float], None]
    ) -> Iterator[Indexed]:
        """Updates the points of `documents` in the active index of `collection`. Writes nothing to the catalog.

        `heartbeat` gets a document and its progress, 0 to 1. If it raises LeaseLostError or CollectionPausedError, only
        that document is left out.
        """
        require_same_model(collection, self.embedder)
        block = _Block(documents, heartbeat)
        split = self.splitter_for(collection)
        ingested_by_id: dict[str, IngestedDocument] = {}
        with ExitStack() as files:
            with self.blobs.batch() as texts:
                writer = PointWriter(
                    index=self.index,
                    lens_indexing=self.lens_indexing,
                    embedder=self.embedder,
                    collection=collection,
                    document_ids=[document.id for document in documents],
                    batch_size=self.batch_size if len(documents) == 1 else self.block_batch_size,
                    held=block.held,
                    before_write=texts.keep,
                    before_embedding=self.before_embedding,
                )
                for document in documents:
                    chunks = files.enter_context(SpooledChunks(document.id, self.temporary_folder))
                    if ingested := self._index_one(document, collection, split, chunks, writer, texts, block):
                        ingested_by_id[document.id] = ingested
                reports = writer.finish(ingested_by_id)
            yield Indexed({document_id: ingested_by_id[document_id] for document_id in reports}, reports, block.left)

    def _index_one(
        self,
        document: Document,
        collection: Collection,
        split: Splitter,
        chunks: SpooledChunks,
        writer: PointWriter,
        texts: BlobBatch,
        block: _Block,
    ) -> IngestedDocument | None:
        """Parses, splits and writes one document. None when it was left out; `block.left` then has the error."""
        with SpooledText(self.temporary_folder) as text:
            findings = None
            # Parse the whole document before the first write, so that an unreadable one leaves its old points
            # untouched.
            with block.leaving_out(document):
                heartbeat = partial(block.heartbeat, document)
                findings = read_text(document, text, blobs=self.blobs, texts=texts, read=self.read, heartbeat=heartbeat)
            if findings is None:
                return None
            title, metadata = describe(document, findings)
            unknown = Skipped("passages")
            for chunk in chunks_of(document, collection, findings, text, split, unknown):
                if document.id in block.left:
                    return None
                block.advance(document, chunk.end / text.character_count)
                chunks.write(chunk)
                writer.write(chunk, make_payload(document, chunk, title, metadata))
            if unknown and not len(chunks):
                with block.leaving_out(document):
                    raise DocumentError(
                        f"The model has no token for any character of this document. {unknown.reasons} Run OCR on "
                        "it, or get it in another format."
                    )
                return None
        block.advance(document, 1.0)
        return IngestedDocument(title, unknown.added_to(metadata), chunks)


class _Block:
    """The progress of each document of a call, and the errors of those left out, by id."""

    def __init__(self, documents: Iterable[Document], heartbeat: Callable[[Document, float], None]) -> None:
        self._documents = {document.id: document for document in documents}
        self.heartbeat = heartbeat
        self._progress = dict.fromkeys(self._documents, READ_PROGRESS)
        self.left: dict[str, GircseError] = {}

    def advance(self, document: Document, share: float) -> None:
        """Records that `share` of the text (0 to 1) has been passed to the writer."""
        self._progress[document.id] = READ_PROGRESS + (1 - READ_PROGRESS) * share

    def held(self) -> set[str]:
        """Ids of the documents whose points may still be written. Sends a heartbeat for each."""
        for document in self._documents.values():
            if document.id not in self.left:
                with self.leaving_out(document):
                    self.heartbeat(document, self._progress[document.id])
        return self._documents.keys() - self.left.keys()

    @contextmanager
    def leaving_out(self, document: Document) -> Iterator[None]:
        """Records an error for this document alone. UnavailableError passes through: it stops all documents."""
        try:
            yield
        except UnavailableError:
            raise
        except GircseError as error:
            self.left[document.id] = error


def read_text(
    document: Document, text: SpooledText, *, blobs: BlobStore, texts: BlobBatch, read: Reader, heartbeat: Heartbeat
) -> Findings:
    """Parses the stored file into `text`, then stores text and layout in `texts`. Raises DocumentError if it has
    none."""
    sink = _ProgressingSink(text, document, heartbeat)

    def attempt() -> Findings:
        sink.clear()
        path = blobs.verified(document.content_hash)
        return read(path, uri=document.uri, media_type=document.media_type, into=sink)

    try:
        findings = attempt()
    except FileNotFoundError:  # the file was quarantined or restored at this moment
        findings = attempt()
    if not text.has_text:
        raise DocumentError(f"No text was found in {document.uri}: it is empty, or holds only images.")
    heartbeat(READ_PROGRESS)
    texts.put_text(document.content_hash, _interruptible(text.parts(), heartbeat))
    texts.put_layout(document.content_hash, text.layout)
    return findings


def _interruptible(parts: Iterator[str], heartbeat: Heartbeat) -> Iterator[str]:
    for number, part in enumerate(parts):
        if number:
            heartbeat(READ_PROGRESS)
        yield part


def describe(document: Document, findings: Findings) -> tuple[str, Metadata]:
    """Title and metadata. Values from the user win over values from the reader, and these over derived ones."""
    title = findings.title if document.title in ("", document.uri) else document.title
    metadata = {**findings.metadata, **document.metadata}
    return title, {**derived_metadata(document.uri, metadata), **metadata}


class _ProgressingSink:
    """Before each part, reports how many bytes of the document have been parsed."""

    def __init__(self, text: SpooledText, document: Document, heartbeat: Heartbeat) -> None:
        self._text = text
        self._byte_count = document.byte_count
        self._heartbeat = heartbeat

    def write(self, part: TextPart) -> None:
        if read := self._text.byte_count:
            self._heartbeat(READ_PROGRESS * min(1.0, read / max(1, self._byte_count)))
        self._text.write(part)

    def advance(self, share: float) -> None:
        self._heartbeat(READ_PROGRESS * min(1.0, max(0.0, share)))

    def clear(self) -> None:
        self._text.clear()


def chunks_of(
    document: Document,
    collection: Collection,
    findings: Findings,
    text: SpooledText,
    split: Splitter,
    unknown: Skipped,
) -> Iterator[Chunk]:
    """The chunks of the document, with title and headings as context if the collection wants it.

    Spans without a single token of the model are not embedded; they are added to `unknown`.
    """
    if not collection.chunk_context:
        return make_chunks(document, _known(split_text(text, split), unknown))
    title = findings.title if findings.is_titled else ""
    # Ignore titles that are only the URI or a fallback: they carry no content.
    if document.title not in ("", document.uri, findings.title):
        title = document.title
    return make_chunks(document, _known(split_text(text, split, path=HeadingPath()), unknown), title=title)


def _known(spans: Iterable[Span], unknown: Skipped) -> Iterator[Span]:
    for span in spans:
        if span.has_tokens:
            yield span
        else:
            where = f"Characters {span.start}–{span.end}"
            place = f"{where}, page {span.page}" if span.page is not None else where
            unknown.note(place, "the model has no tokens for them")


def split_text(text: SpooledText, split: Splitter, *, path: HeadingPath | None = None) -> Iterator[Span]:
    """Spans of the whole text, though each part is split by itself. With `path`, spans have the headings above them."""
    begin = 0
    for part in text.parts():
        # Page starts before this part count, too: they become negative.
        pages = [page - begin for page in text.page_starts]
        marks = text.marks(begin, begin + len(part))
        spans = split(ExtractedText(part, title="", media_type="", page_starts=pages, marks=marks))
        for span in path.place(part, spans, marks) if path else spans:
            yield replace(span, start=begin + span.start, end=begin + span.end)
        begin += len(part)


def make_chunks(document: Document, spans: Iterable[Span], *, title: str = "") -> Iterator[Chunk]:
    """Yields chunks whose ids depend on the embedded text alone, so that moved text keeps its point.

    The context of a chunk, made of `title` and the headings of its span, is embedded with it.
    """
    point_ids = PointIds(document.collection, document.id)
    for ordinal, span in enumerate(spans):
        context = context_of(title, span.headings)
        text_hash = hash_of_text(with_context(context, span.text))
        yield Chunk(
            id=point_ids.next(text_hash),
            document_id=document.id,
            ordinal=ordinal,
            text=span.text,
            text_hash=text_hash,
            start=span.start,
            end=span.end,
            page=span.page,
            context=context,
            kind=span.kind,
            page_starts=span.page_starts,
        )


def make_payload(document: Document, chunk: Chunk, title: str, metadata: Metadata) -> dict[str, object]:
    """The payload in LangChain's Qdrant convention, so that its QdrantVectorStore can read our collections."""
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
            **({PAGE_STARTS_KEY: list(chunk.page_starts)} if chunk.page_starts else {}),
            "text_hash": chunk.text_hash,
            **({CONTEXT_KEY: chunk.context} if chunk.context else {}),
            **({KIND_KEY: chunk.kind.value} if chunk.kind is not ChunkKind.PROSE else {}),
        },
    }
