"""Turns the bytes of a file into text. `read_document` is the door; it needs no network and no model.

Every refusal is a DocumentError that says what is wrong with the document and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from app.errors import DocumentError
from app.types import ExtractedText
from ingest.readers.html import read_html
from ingest.readers.limits import DEFAULT_LIMITS, MEGABYTE, ReadLimits, check_length
from ingest.readers.office import read_docx
from ingest.readers.pdf import read_pdf
from ingest.readers.tables import read_csv, read_xlsx
from ingest.readers.text import clean_text, read_markdown, read_text

__all__ = ["DEFAULT_LIMITS", "SUFFIXES", "ReadLimits", "media_type_of", "read_document"]

_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
SUFFIXES = {
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".html": "text/html",
    ".htm": "text/html",
    ".pdf": "application/pdf",
    ".docx": _DOCX,
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".xlsx": _XLSX,
}
_READERS: dict[str, Callable[[bytes, ReadLimits], ExtractedText]] = {
    "text/plain": read_text,
    "text/markdown": read_markdown,
    "text/html": read_html,
    "application/pdf": read_pdf,
    _DOCX: read_docx,
    "text/csv": read_csv,
    "text/tab-separated-values": read_csv,
    _XLSX: read_xlsx,
}
_MAX_TITLE = 200


def media_type_of(uri: str) -> str:
    """The media type that the suffix of a path, file name or URL stands for. Raises DocumentError for others."""
    suffix = _path_of(uri).suffix
    media_type = SUFFIXES.get(suffix.lower())
    if media_type is None:
        what = f"Files ending in {suffix!r}" if suffix else "Files without a suffix"
        raise DocumentError(f"{what} cannot be read. Known suffixes: {', '.join(SUFFIXES)}.")
    return media_type


def read_document(
    data: bytes, *, uri: str, media_type: str | None = None, limits: ReadLimits = DEFAULT_LIMITS
) -> ExtractedText:
    """Extracts the text of a document. A media type that no reader knows counts less than the suffix of `uri`."""
    known = (media_type or "").split(";", 1)[0].strip().lower()
    if known not in _READERS:
        known = media_type_of(uri)
    if len(data) > limits.max_bytes:
        raise DocumentError(
            f"This document has {len(data) / MEGABYTE:,.1f} MB; the limit is {limits.max_bytes / MEGABYTE:,.1f} MB. "
            "Split it into parts."
        )
    if not data:
        raise DocumentError("This document is empty: it has 0 bytes. Check that it was saved or uploaded whole.")
    found = _READERS[known](data, limits)
    check_length(len(found.text), limits)
    if not found.text.strip():
        raise DocumentError("This document is empty: no text was found in it. Check that it is the right file.")
    metadata = {key: clean_text(value) if isinstance(value, str) else value for key, value in found.metadata.items()}
    title = " ".join(clean_text(found.title).split())[:_MAX_TITLE] or clean_text(_path_of(uri).stem)
    return replace(found, title=title, media_type=known, metadata=metadata)


def _path_of(uri: str) -> PurePosixPath:
    path = unquote(urlsplit(uri).path) if "://" in uri else uri.replace("\\", "/")
    return PurePosixPath(path)
