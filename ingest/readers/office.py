"""Word documents: paragraphs and tables in reading order."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import docx
from docx.document import Document as WordDocument
from docx.table import Table

from app.types.documents import ExtractedText
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import DOCX
from ingest.readers.package import check_package, core_metadata
from ingest.readers.tables import join_paragraphs, render_rows

_STATISTICS = "/docProps/app.xml"
_PAGES = re.compile(rb"<Pages>(\d{1,6})</Pages>")


def read_docx(data: bytes, limits: ReadLimits) -> ExtractedText:
    check_package(data, limits, kind="Word document", folder="word/")
    document = docx.Document(io.BytesIO(data))
    properties = document.core_properties
    metadata = core_metadata(properties.author, properties.created, properties.modified, ignored_author="python-docx")
    pages = _page_count(document)
    return ExtractedText(
        text=join_paragraphs(_paragraphs(document), limits),
        title=properties.title or _first_heading(document),
        media_type=DOCX,
        metadata=metadata | ({"pages": pages} if pages else {}),
    )


def _paragraphs(document: WordDocument) -> Iterator[str]:
    for item in document.iter_inner_content():
        if isinstance(item, Table):
            yield from render_rows([cell.text for cell in row.cells] for row in item.rows)
        elif item.text.strip():
            yield item.text


def _first_heading(document: WordDocument) -> str:
    for paragraph in document.paragraphs:
        style = paragraph.style.name if paragraph.style is not None else None
        if style and style.startswith(("Title", "Heading")) and paragraph.text.strip():
            return paragraph.text
    return ""


def _page_count(document: WordDocument) -> int:
    """As Word counted when it last saved; 0 when it is not told."""
    for part in document.part.package.iter_parts():
        if part.partname == _STATISTICS:
            found = _PAGES.search(part.blob)
            return int(found.group(1)) if found else 0
    return 0
