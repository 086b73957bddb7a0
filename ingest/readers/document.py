"""Turns the bytes of a file into text, in this very process. Needs no network and no model.

Every refusal is a DocumentError that says what is wrong with the document and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from app.errors import DocumentError
from app.types import ExtractedText
from ingest.readers.html import read_html
from ingest.readers.limits import DEFAULT_LIMITS, ReadLimits, check_length, check_size
from ingest.readers.media_types import DOCX, XLSX, media_type_of, path_of
from ingest.readers.office import read_docx
from ingest.readers.pdf import read_pdf
from ingest.readers.tables import read_csv, read_xlsx
from ingest.readers.text import clean_text, read_markdown, read_text

_READERS: dict[str, Callable[[bytes, ReadLimits], ExtractedText]] = {
    "text/plain": read_text,
    "text/markdown": read_markdown,
    "text/html": read_html,
    "application/pdf": read_pdf,
    DOCX: read_docx,
    "text/csv": read_csv,
    "text/tab-separated-values": read_csv,
    XLSX: read_xlsx,
}
_MAX_TITLE = 200


def read_document(
    data: bytes, *, uri: str, media_type: str | None = None, limits: ReadLimits = DEFAULT_LIMITS
) -> ExtractedText:
    """Extracts the text of a document. A media type that no reader knows counts less than the suffix of `uri`."""
    known = (media_type or "").split(";", 1)[0].strip().lower()
    if known not in _READERS:
        known = media_type_of(uri)
    check_size(len(data), limits)
    found = _READERS[known](data, limits)
    check_length(len(found.text), limits)
    if not found.text.strip():
        raise DocumentError("This document is empty: no text was found in it. Check that it is the right file.")
    metadata = {key: clean_text(value) if isinstance(value, str) else value for key, value in found.metadata.items()}
    title = " ".join(clean_text(found.title).split())[:_MAX_TITLE] or clean_text(path_of(uri).stem)
    return replace(found, title=title, media_type=known, metadata=metadata)
