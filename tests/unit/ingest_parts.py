"""For the tests of pipeline and worker: a real catalog, blobs and reader; chunks are paragraphs, to count by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fresh_catalog import connect_migrated
from sqlalchemy import Engine

from app.catalog import SqlCatalog
from app.collections.lens_indexing import LensIndexer
from app.documents.blobs import FolderBlobStore
from app.ports.parts import Embedder, VectorIndex
from app.ports.texts import Reader
from app.testing import ToyEmbedder
from app.types.documents import Collection, Document, Job, Metadata, NewDocument
from app.types.texts import ExtractedText, Span
from ingest.pipeline import IngestPipeline
from ingest.readers.document import read_file

COLLECTION = "library"
INDEX = "library--1"


def split_paragraphs(document: ExtractedText) -> list[Span]:
    return [Span(match.group(), *match.span()) for match in re.finditer(r"[^\n]+", document.text)]


@dataclass(frozen=True)
class IngestParts:
    engine: Engine
    catalog: SqlCatalog
    blobs: FolderBlobStore
    index: VectorIndex

    @classmethod
    def open(cls, home: Path, index: VectorIndex) -> IngestParts:
        engine = connect_migrated(home / "catalog_test.db")
        return cls(engine, SqlCatalog(engine), FolderBlobStore(home / "files"), index)

    def add_collection(self, embedder: Embedder, *, chunk_context: bool = False) -> None:
        self.index.create(INDEX, dimension=embedder.dimension)
        collection = Collection(
            COLLECTION,
            embedder.fingerprint,
            embedder.dimension,
            "For the tests.",
            3,
            200,
            30,
            INDEX,
            chunk_context=chunk_context,
        )
        self.catalog.create_collection(collection)

    def pipeline(
        self,
        embedder: Embedder | None = None,
        *,
        batch_size: int = 2,
        read: Reader = read_file,
        before_embedding: Callable[[], None] = lambda: None,
    ) -> IngestPipeline:
        embedder = embedder or ToyEmbedder()
        return IngestPipeline(
            catalog=self.catalog,
            blobs=self.blobs,
            index=self.index,
            lens_indexing=LensIndexer(catalog=self.catalog, index=self.index, embedder=embedder),
            embedder=embedder,
            read=read,
            splitter_for=lambda _: split_paragraphs,
            batch_size=batch_size,
            block_batch_size=64,
            before_embedding=before_embedding,
        )

    def submit(
        self, content: str | bytes, *, uri: str = "a.txt", title: str = "", metadata: Metadata | None = None
    ) -> tuple[Document, Job | None]:
        data = content.encode() if isinstance(content, str) else content
        new = NewDocument(uri, title, "", self.blobs.put(data), len(data), metadata or {})
        return self.catalog.submit(COLLECTION, new)
