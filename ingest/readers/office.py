"""Word documents: paragraphs and tables in reading order."""

from __future__ import annotations

import io
from collections.abc import Iterator

import docx
from docx.document import Document as WordDocument
from docx.opc.exceptions import OpcError
from docx.table import Table

from app.errors import DocumentError
from app.types import ExtractedText
from ingest.readers.archive import check_archive, core_metadata, damaged
from ingest.readers.faults import PARSER_FAULTS
from ingest.readers.limits import ReadLimits
from ingest.readers.tables import join_paragraphs, render_rows


def read_docx(data: bytes, limits: ReadLimits) -> ExtractedText:
    check_archive(data, limits, kind="Word document", folder="word/")
    try:
        document = docx.Document(io.BytesIO(data))
        text = join_paragraphs(_paragraphs(document), limits)
        properties = document.core_properties
        return ExtractedText(
            text=text,
            title=properties.title or _first_heading(document),
            media_type="application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            metadata=core_metadata(properties.author, properties.created, ignored_author="python-docx"),
        )
    except DocumentError:
        raise
    except (OpcError, *PARSER_FAULTS) as error:
        raise damaged("Word document", error) from error


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
