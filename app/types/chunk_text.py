"""The text that is embedded for a chunk: its context (title, headings) and its own text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

# Keys in a point's metadata: the chunk's context, if any, and its kind, if not prose.
CONTEXT_KEY, KIND_KEY = "chunk_context", "chunk_kind"
PAGE_STARTS_KEY = "page_starts"  # for a chunk on several pages: characters of its text at which further pages begin


def with_context(context: str, text: str) -> str:
    """The text that the model embeds and BM25 indexes."""
    return f"{context}\n{text}" if context else text


def hash_of_text(text: str) -> str:
    """SHA-256 of an embedded text; identifies a chunk's text in the catalog, the index and caches."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def has_its_hash(payload: Mapping[str, object]) -> bool:
    """Whether the stored text of a point written by gircse equals the embedded text, by its hash."""
    metadata = payload.get("metadata")
    stored_hash = metadata.get("text_hash") if isinstance(metadata, Mapping) else None
    return stored_hash == hash_of_text(embedded_text_of(payload))


def embedded_text_of(payload: Mapping[str, object]) -> str:
    """The embedded text of a point, by its payload."""
    metadata = payload.get("metadata")
    context = metadata.get(CONTEXT_KEY, "") if isinstance(metadata, Mapping) else ""
    return with_context(str(context), str(payload.get("page_content", "")))
