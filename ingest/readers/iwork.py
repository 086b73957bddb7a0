"""Documents of Apple's Pages, Numbers and Keynote: texts, tables, values of charts, notes and comments.

Since 2013 they are streams of objects (see iwa.py), before that XML. Where neither can be read, a preview as PDF is.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import replace

from app.errors import DocumentError
from app.types.documents import MetadataValue
from app.types.texts import ExtractedText
from ingest.readers.grids import render_rows
from ingest.readers.iwa import Fields, Storage, Stored, fields_of, first_bytes, first_number, texts_of, unpack_double
from ingest.readers.iwork_tables import rows_of, shown_number
from ingest.readers.iwork_xml import blocks_of_index
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import IWORK
from ingest.readers.members import ReadMember
from ingest.readers.package import check_package
from ingest.readers.parts import Block
from ingest.readers.skipped import Skipped
from ingest.readers.slides import check_slides, join_pages
from ingest.readers.tables import join_blocks

_PREVIEW = "QuickLook/Preview.pdf"
_INDEXES = ("index.xml", "index.apxl")
_LOCKED = (".iwph", ".iwpv2")
# Types of objects.
_DOCUMENT, _SHEET, _SHOW, _SLIDE = 1, 2, 2, 5
_PAGES_DOCUMENT = 10_000
_TEXTS = (2001, 2005)
_TABLE, _COMMENT, _CHART = 6000, 3056, 5021
_CHART_DATA = 10_000  # the field of it in a chart
# What a text is for.
_HEADER, _FOOTNOTE, _NOTE, _CELL = 1, 2, 4, 5
_LABELS = {_FOOTNOTE: "Footnote: ", _NOTE: "Notes: "}
# Files of layouts and of what the program keeps for itself.
_NOT_SHOWN = ("DocumentStylesheet", "MasterSlide", "TemplateSlide", "Tables", "ViewState", "Metadata")
# Breaks of lines, columns, sections and pages; places of pictures and tables.
_SIGNS = str.maketrans(
    {"\u2028": "\n", "\u2029": "\n", "\x04": "\n", "\x05": "\n", "\x0c": "\n", "\ufffc": None, "\x0e": None}
)


def read_iwork(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    """Raises DocumentError for a protected document, and for one without text."""
    check_package(data, limits, kind="iWork document")
    skipped = Skipped("parts")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        if any(name.endswith(_LOCKED) for name in names):
            raise DocumentError("This file is protected by a password. Save it without one.")
        index = next((name for name in names if name in _INDEXES), "")
        if index:
            blocks = list(blocks_of_index(archive, index, skipped))
            found = _joined([blocks], {}, limits, skipped)
        else:
            found = _of_storage(Storage(data, limits, skipped), limits, skipped)
        if found.text.strip():
            return found
        if _PREVIEW in names:
            preview = read_member(archive.read(_PREVIEW), uri=_PREVIEW, media_type="application/pdf", limits=limits)
            skipped.note(_PREVIEW, "Only this preview of the document can be read.")
            about = skipped.added_to(preview.metadata)
            return ExtractedText(preview.text, "", IWORK, about, page_starts=preview.page_starts, words=preview.words)
    reasons = f" {skipped.reasons}" if skipped else ""
    raise DocumentError(f"This document of Pages, Numbers or Keynote has no text that can be read.{reasons}")


def _of_storage(storage: Storage, limits: ReadLimits, skipped: Skipped) -> ExtractedText:
    document = _Document(storage, skipped)
    slides = document.slides()
    check_slides(slides, limits)
    if slides:
        pages = [list(document.slide(slide)) for slide in slides]
        title = next((block.text for page in pages for block in page if block.level), "")
        return replace(_joined(pages, {"pages": len(slides)}, limits, skipped), title=title)
    return _joined([list(document.blocks())], {}, limits, skipped)


def _joined(
    pages: list[list[Block]], metadata: dict[str, MetadataValue], limits: ReadLimits, skipped: Skipped
) -> ExtractedText:
    about = skipped.added_to(metadata)
    if "pages" in metadata:
        joined = join_pages(pages, limits)
        return ExtractedText(
            joined.text, "", IWORK, about, page_starts=joined.page_starts, marks=joined.marks, cells=joined.cells
        )
    text, marks, cells = join_blocks(pages[0], limits)
    return ExtractedText(text, "", IWORK, about, marks=marks, cells=cells)


class _Document:
    def __init__(self, storage: Storage, skipped: Skipped) -> None:
        self._storage = storage
        self._skipped = skipped
        self._shown: set[int] = set()  # numbers of objects
        self._roots = [each for each in storage.objects.values() if each.kind in (_DOCUMENT, _PAGES_DOCUMENT)]

    def slides(self) -> list[Stored]:
        """The slides of a presentation in order; empty for another document."""
        for root in self._roots:
            for show in self._storage.all_at(root.fields.get(2, ())) if root.kind == _DOCUMENT else ():
                tree = fields_of(first_bytes(show.fields, 3))
                nodes = self._storage.all_at(tree.get(2, ()))
                slides = (self._storage.at(node.fields.get(2, [None])[0]) for node in nodes)
                return [slide for slide in slides if slide is not None and slide.kind == _SLIDE]
        return []

    def slide(self, slide: Stored) -> Iterator[Block]:
        """The title, then what the file of the slide holds."""
        for title in self._storage.all_at(slide.fields.get(5, ())):
            shape = fields_of(first_bytes(title.fields, 1))
            for text in self._storage.all_at([*shape.get(4, ()), *shape.get(2, ())]):
                yield from (Block(block.text, 1) for block in self._text(text))
        yield from self._of_file(slide.file)

    def blocks(self) -> Iterator[Block]:
        """The sheets of a workbook; the text of any other document, with its tables."""
        for root in self._roots:
            for field in root.fields.values():
                for stored in self._storage.all_at([value for value in field if isinstance(value, bytes)]):
                    if stored.kind == _SHEET and root.kind == _DOCUMENT:
                        yield from self._sheet(stored)
                    elif stored.kind in _TEXTS:
                        yield from self._text(stored)
        for file in self._storage.files:
            if not file.rpartition("Index/")[2].startswith(_NOT_SHOWN):
                yield from self._of_file(file)

    def _sheet(self, sheet: Stored) -> Iterator[Block]:
        if name := texts_of(sheet.fields, 1):
            yield Block(name, 1)
        for stored in self._storage.all_at(sheet.fields.get(2, ())):
            yield from self._object(stored)

    def _of_file(self, file: str) -> Iterator[Block]:
        """Running text comes before footnotes, notes of the presenter, and comments."""
        stored = [each for each in self._storage.objects.values() if each.file == file]
        late = [each for each in stored if each.kind == _COMMENT or (_is_text(each) and _purpose(each) in _LABELS)]
        for each in stored:
            if each not in late:
                yield from self._object(each)
        for each in late:
            yield from self._object(each)

    def _object(self, stored: Stored) -> Iterator[Block]:
        if _is_text(stored):
            yield from self._text(stored)
        elif stored.number in self._shown:
            return
        elif stored.kind == _TABLE:
            self._shown.add(stored.number)
            yield from self._table(stored)
        elif stored.kind == _CHART:
            self._shown.add(stored.number)
            yield from render_rows(_rows_of_chart(stored))
        elif stored.kind == _COMMENT:
            self._shown.add(stored.number)
            if text := texts_of(stored.fields, 1).translate(_SIGNS).strip():
                yield Block(f"Comment: {text}")

    def _text(self, stored: Stored) -> Iterator[Block]:
        purpose = _purpose(stored)
        if stored.number in self._shown or purpose == _CELL:
            return
        self._shown.add(stored.number)
        text = texts_of(stored.fields, 3).translate(_SIGNS)
        label = _LABELS.get(purpose, "")
        for paragraph in text.split("\n"):
            if paragraph.strip():
                yield Block(label + " ".join(paragraph.split()))

    def _table(self, info: Stored) -> Iterator[Block]:
        for model in self._storage.all_at(info.fields.get(2, ())):
            if name := texts_of(model.fields, 8):
                yield Block(name, 2)
            yield from render_rows(rows_of(model, self._storage, self._skipped), has_gaps=True)


def _is_text(stored: Stored) -> bool:
    return stored.kind in _TEXTS


def _purpose(stored: Stored) -> int:
    return first_number(stored.fields, 1)


def _rows_of_chart(chart: Stored) -> Iterator[list[str]]:
    grid = fields_of(first_bytes(fields_of(first_bytes(chart.fields, _CHART_DATA)), 7))
    rows, columns = ([_decoded(name) for name in grid.get(number, ())] for number in (1, 2))
    values = [_values(fields_of(row)) for row in grid.get(3, ()) if isinstance(row, bytes)]
    if any(map(any, values)):
        yield ["", *columns]
        for at, row in enumerate(values):
            yield [rows[at] if at < len(rows) else "", *row]


def _values(row: Fields) -> list[str]:
    values = [fields_of(value) for value in row.get(1, ()) if isinstance(value, bytes)]
    return [shown_number(unpack_double(first_bytes(value, 1))) if 1 in value else "" for value in values]


def _decoded(value: int | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
