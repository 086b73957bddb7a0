"""What is embedded of a chunk: its text, under where in the document it stands."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

# In the metadata of a point: its context where there is any, and its kind where it is not prose.
CONTEXT_KEY, KIND_KEY = "chunk_context", "chunk_kind"
PAGE_STARTS_KEY = (
    "page_starts"  # of a chunk on several pages: the characters of its text at which the further ones begin
)


def with_context(context: str, text: str) -> str:
    """What the model and the index of words read of a chunk."""
    return f"{context}\n{text}" if context else text


def hash_of_text(text: str) -> str:
    """Of what is embedded: it names a chunk's text wherever it is kept."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def has_its_hash(payload: Mapping[str, object]) -> bool:
    """Whether the text of a point of ours is what was embedded."""
    metadata = payload.get("metadata")
    told = metadata.get("text_hash") if isinstance(metadata, Mapping) else None
    return told == hash_of_text(embedded_text_of(payload))


def embedded_text_of(payload: Mapping[str, object]) -> str:
    """Of a point's payload."""
    metadata = payload.get("metadata")
    context = metadata.get(CONTEXT_KEY, "") if isinstance(metadata, Mapping) else ""
    return with_context(str(context), str(payload.get("page_content", "")))
