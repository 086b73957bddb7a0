"""Selects the splitter of a collection."""

from __future__ import annotations

from app.ports.texts import Splitter, TokenCounter
from app.types.documents import Collection
from ingest.splitter import TokenSplitter
from ingest.structure import StructureSplitter


def splitter_of(collection: Collection, counter: TokenCounter) -> Splitter:
    make = StructureSplitter if collection.chunk_structure else TokenSplitter
    return make(counter, max_tokens=collection.chunk_tokens, overlap=collection.chunk_overlap)
