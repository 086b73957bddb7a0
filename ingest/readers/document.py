"""Turns the bytes of a file into text, in this very process. Needs no network and no model.

Every refusal is a DocumentError that says what is wrong with the document and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from app.errors import DocumentError
from app.types import ExtractedText
from ingest.readers.books import read_epub
from ingest.readers.bundles import read_tar, read_zip
from ingest.readers.faults import PARSER_FAULTS, damaged
from ingest.readers.html import read_html
from ingest.readers.limits import DEFAULT_LIMITS, ReadLimits, check_length, check_size
from ingest.readers.mail import read_mailbox, read_message
from ingest.readers.media_types import CODE, DOCX, PPTX, XLSX, media_type_of, path_of
from ingest.readers.members import ReadMember
from ingest.readers.office import read_docx
from ingest.readers.pdf import read_pdf
from ingest.readers.records import read_json, read_json_lines
from ingest.readers.slides import read_pptx
from ingest.readers.tables import read_csv, read_xlsx
from ingest.readers.text import clean_text, read_markdown, read_text
from ingest.readers.xml import read_xml

_Read = Callable[[bytes, ReadLimits], ExtractedText]


def _container(read: Callable[[bytes, ReadLimits, ReadMember], ExtractedText]) -> _Read:
    return lambda data, limits: read(data, limits, read_document)


# What a person calls the format, and who reads it.
_FORMATS: dict[str, tuple[str, _Read]] = {
    "text/plain": ("text", read_text),
    "text/markdown": ("text", read_markdown),
    "text/html": ("HTML", read_html),
    "application/pdf": ("PDF", read_pdf),
    DOCX: ("Word document", read_docx),
    PPTX: ("PowerPoint presentation", read_pptx),
    XLSX: ("Excel workbook", read_xlsx),
    "text/csv": ("table", read_csv),
    "text/tab-separated-values": ("table", read_csv),
    "application/json": ("JSON", read_json),
    "application/x-ndjson": ("JSON", read_json_lines),
    "application/xml": ("XML", read_xml),
    "application/epub+zip": ("EPUB", read_epub),
    "message/rfc822": ("message", _container(read_message)),
    "application/mbox": ("mailbox", _container(read_mailbox)),
    "application/zip": ("zip archive", _container(read_zip)),
    "application/x-tar": ("tar archive", _container(read_tar)),
    **dict.fromkeys(CODE, ("source code", read_text)),
}
_MAX_TITLE = 200


def read_document(
    data: bytes, *, uri: str, media_type: str | None = None, limits: ReadLimits = DEFAULT_LIMITS
) -> ExtractedText:
    """Extracts the text of a document. A media type that no reader knows counts less than the suffix of `uri`."""
    known = (media_type or "").split(";", 1)[0].strip().lower()
    if known not in _FORMATS:
        known = media_type_of(uri)
    check_size(len(data), limits)
    found = _read(known, data, limits)
    check_length(len(found.text), limits)
    if not found.text.strip():
        raise DocumentError("This document is empty: no text was found in it. Check that it is the right file.")
    metadata = {key: clean_text(value) if isinstance(value, str) else value for key, value in found.metadata.items()}
    if language := CODE.get(known):
        metadata["language"] = language
    path = path_of(uri)
    name = path.name if language else path.stem.removesuffix(".tar")
    title = " ".join(clean_text(found.title).split())[:_MAX_TITLE] or clean_text(name)
    return replace(found, title=title, media_type=known, metadata=metadata)


def _read(media_type: str, data: bytes, limits: ReadLimits) -> ExtractedText:
    kind, read = _FORMATS[media_type]
    try:
        return read(data, limits)
    except DocumentError:
        raise
    except PARSER_FAULTS as error:
        raise damaged(kind, error) from error
