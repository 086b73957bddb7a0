"""Compares rows of the catalog with the metadata in the points of the same chunks and documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from app.search.retrieval import CHUNK_KEYS
from app.types.documents import Chunk, Document, Metadata

_OF_CHUNKS = ("ordinal", "start", "end", "page", "text_hash")


def contradicts_chunk(metadata: Mapping[str, object], chunk: Chunk) -> bool:
    return any(metadata.get(key) != getattr(chunk, key) for key in _OF_CHUNKS)


def contradicts_document(metadata: Mapping[str, object], document: Document) -> bool:
    """Whether the point's metadata differ from the row. The row may have more metadata: notes on unreadable parts."""
    own = {key: value for key, value in metadata.items() if key not in CHUNK_KEYS}
    there = {key: document.metadata.get(key) for key in own}
    pairs = [(metadata.get("uri"), document.uri), (metadata.get("title"), document.title)]
    return any(not _is_same(*pair) for pair in pairs) or not _is_same_metadata(cast("Metadata", own), there)


def _is_same_metadata(said: Metadata, there: Mapping[str, object]) -> bool:
    return all(_is_same(value, there[key]) for key, value in said.items())


def _is_same(said: object, there: object) -> bool:
    """Whether both values are equal. Text that a database cannot store counts as equal: the row has it escaped."""
    return said == there or (isinstance(said, str) and not _is_storable(said))


def _is_storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)
