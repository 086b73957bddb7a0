"""Word documents: paragraphs and tables in reading order."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import docx
from docx.document import Document as WordDocument
from docx.styles.style import BaseStyle
from docx.table import Table

from app.types.texts import ExtractedText
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import DOCX
from ingest.readers.package import check_package, core_metadata
from ingest.readers.parts import Block
from ingest.readers.tables import join_blocks, render_rows

_HEADING_STYLE = re.compile(r"Heading ([1-9])")
_LOWEST_LEVEL = 6
_MAX_STYLES = 10  # that are based on each other
_STATISTICS = "/docProps/app.xml"
_PAGES = re.compile(rb"<Pages>(\d{1,6})</Pages>")


def read_docx(data: bytes, limits: ReadLimits) -> ExtractedText:
    check_package(data, limits, kind="Word document", folder="word/")
    document = docx.Document(io.BytesIO(data))
    properties = document.core_properties
    metadata = core_metadata(properties.author, properties.created, properties.modified, ignored_author="python-docx")
    pages = _page_count(document)
    blocks = list(_blocks(document))
    text, marks, cells = join_blocks(blocks, limits)
    return ExtractedText(
        text,
        title=next((block.text for block in blocks if block.level), properties.title or ""),
        media_type=DOCX,
        metadata=metadata | ({"pages": pages} if pages else {}),
        marks=marks,
        cells=cells,
    )


def _blocks(document: WordDocument) -> Iterator[Block]:
    level_of_style: dict[str | None, int | None] = {}
    for item in document.iter_inner_content():
        if isinstance(item, Table):
            yield from render_rows([cell.text for cell in row.cells] for row in item.rows)
        elif item.text.strip():
            style = item._p.style  # its id: to look up a style takes longer than all else
            if style not in level_of_style:
                level_of_style[style] = _heading_level(item.style)
            yield Block(item.text, level_of_style[style])


def _heading_level(style: BaseStyle | None) -> int | None:
    """Of a style, or of those that it is based on; the title of a document is its outermost heading."""
    for _ in range(_MAX_STYLES):
        if style is None:
            return None
        if style.name == "Title":
            return 1
        if found := _HEADING_STYLE.fullmatch(style.name or ""):
            return min(int(found.group(1)), _LOWEST_LEVEL)
        style = getattr(style, "base_style", None)
    return None


def _page_count(document: WordDocument) -> int:
    """As Word counted when it last saved; 0 when it is not told."""
    for part in document.part.package.iter_parts():
        if part.partname == _STATISTICS:
            found = _PAGES.search(part.blob)
            return int(found.group(1)) if found else 0
    return 0
