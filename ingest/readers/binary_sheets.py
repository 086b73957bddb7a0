"""Binary workbooks (xlsb): packages as xlsx, but sheets, texts, styles and comments are records ([MS-XLSB])."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, TypeVar

from app.types.texts import ExtractedText
from ingest.readers.cell_dates import EPOCH, EPOCH_1904
from ingest.readers.cell_values import CellFormats, error_text, packed_number
from ingest.readers.grids import render_rows
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import XLS
from ingest.readers.members import ReadMember
from ingest.readers.opc import DAMAGED_PART, Package
from ingest.readers.package import check_package
from ingest.readers.parts import Block
from ingest.readers.sheets import (
    MAX_COLUMN,
    Regions,
    cell_name,
    comment_block,
    drawn_on,
    embedded_in,
    margin_texts,
    message_block,
    people_of,
    under_heading,
    xml_comments,
)
from ingest.readers.shown_files import ShownFiles, read_package
from ingest.readers.tables import join_blocks

# Kinds of records.
_ROW, _END_OF_ROWS, _MERGED, _MARGINS, _RULE = 0, 146, 176, 479, 64
_PROPERTIES, _SHEET, _TEXT, _TABLE = 153, 156, 19, 343
_FORMAT, _STYLES, _STYLE = 44, 617, 47
_AUTHOR, _COMMENT, _COMMENT_TEXT = 632, 635, 637
# Kinds of cells, with their values. The short ones stand right of the cell before and have no column.
_SHORT = {12: 1, 13: 2, 14: 3, 15: 4, 16: 5, 17: 6, 18: 7}
_BLANK, _RK, _ERROR, _BOOLEAN, _REAL, _STRING, _SHARED, _RICH = 1, 2, 3, 4, 5, 6, 7, 62
_FORMULAS = {8: _STRING, 9: _REAL, 10: _BOOLEAN, 11: _ERROR}
_CELLS = {_BLANK, _RK, _ERROR, _BOOLEAN, _REAL, _STRING, _SHARED, _RICH}
_MAX_ROW = 1_048_576
_SHOWS_MESSAGE = 0x40000  # the flag of a rule
_MOST_RANGES = 8_192
_NO_STRING = 0xFFFFFFFF
_T = TypeVar("_T")


def is_binary_workbook(data: bytes) -> bool:
    return data.startswith(b"PK\x03\x04")


def read_xlsb(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    """A binary workbook. `read_member` parses embedded files of Office that a sheet shows. Raises DocumentError, or an
    error of `parser_errors`, if it is damaged."""
    check_package(data, limits, kind="Excel workbook", folder="xl/")
    return read_package(data, limits, read_member, lambda package, files: _read(package, files, limits))


def _read(package: Package, files: ShownFiles, limits: ReadLimits) -> ExtractedText:
    title, metadata = package.properties()
    text, marks, cells = join_blocks(_BinaryWorkbook(package, files).blocks(), limits)
    return ExtractedText(
        text, title=title, media_type=XLS, metadata=metadata | package.notes(), marks=marks, cells=cells
    )


class _Record(NamedTuple):
    kind: int
    body: bytes

    def numbers(self, form: str, at: int = 0) -> tuple[int, ...]:
        """Little-endian numbers from `at` on. Raises struct.error if the record is too short, as does `string`."""
        return struct.unpack_from(f"<{form}", self.body, at)

    def string(self, at: int) -> tuple[str, int]:
        """The text at `at`, which its length in UTF-16 units precedes, and the place after it."""
        (count,) = self.numbers("I", at)
        if count == _NO_STRING:
            return "", at + 4
        end = at + 4 + 2 * count
        if end > len(self.body):
            raise struct.error(f"A text of {count:,} characters is cut off.")
        return self.body[at + 4 : end].decode("utf-16-le", "replace"), end


def _records(data: bytes) -> Iterator[_Record]:
    at, end = 0, len(data)
    while at < end:
        kind, at = data[at], at + 1
        if kind & 0x80 and at < end:
            kind, at = kind & 0x7F | (data[at] & 0x7F) << 7, at + 1
        size = 0
        for shift in (0, 7, 14, 21):
            if at == end:
                raise struct.error("A record is cut off.")
            byte, at = data[at], at + 1
            size |= (byte & 0x7F) << shift
            if not byte & 0x80:
                break
        if at + size > end:
            raise struct.error("A record is cut off.")
        yield _Record(kind, data[at : at + size])
        at += size


class _BinaryWorkbook:
    def __init__(self, package: Package, shown_files: ShownFiles) -> None:
        self._package = package
        self._shown_files = shown_files
        self._part = package.main_part("xl/workbook.bin")
        self._people = people_of(package, self._part)
        self._texts = list(self._of_parts(self._part, "sharedStrings", _shared_texts))
        self._unknown = 0  # cells of a sheet whose text is not among the shared ones
        self._is_1904 = False
        self._sheets = list(self._sheets_of())
        self._formats = self._formats_of()

    def blocks(self) -> Iterator[Block]:
        for name, part in self._sheets:
            yield from under_heading(name, self._sheet(part))

    def _of_parts(self, part: str, kind: str, parse: Callable[[Iterator[_Record]], Iterator[_T]]) -> Iterator[_T]:
        """What `parse` finds in the parts of a kind that `part` links to. Damage ends only the part that has it."""
        for name in self._package.related(part, kind):
            yield from self._until_damage(name, parse(self._records_of(name)))

    def _records_of(self, part: str) -> Iterator[_Record]:
        yield from _records(self._package.read(part))

    def _until_damage(self, part: str, found: Iterator[_T]) -> Iterator[_T]:
        """What is found before the first damage, which is noted: the rest of the workbook can be read."""
        try:
            yield from found
        except DAMAGED_PART as error:
            self._package.leave_out(part, error)

    def _sheets_of(self) -> Iterator[tuple[str, str]]:
        """The names and parts of the sheets."""
        relations = self._package.relations(self._part)
        for record in _records(self._package.read(self._part)):
            if record.kind == _PROPERTIES:
                self._is_1904 = bool(record.body[0] & 1)
            elif record.kind == _SHEET:
                identity, name = _identity_and_name(record)
                if identity in relations:
                    yield name, relations[identity].target
                else:
                    self._package.note(self._part, "A sheet has no part.")

    def _formats_of(self) -> CellFormats:
        codes, styles = dict[int, str](), list[int]()
        for number, code in self._of_parts(self._part, "styles", _number_formats):
            if code is None:
                styles.append(number)
            else:
                codes[number] = code
        return CellFormats(codes, styles, epoch=EPOCH_1904 if self._is_1904 else EPOCH)

    def _sheet(self, part: str) -> Iterator[Block]:
        data = self._package.read(part)
        merged, margins, messages = list[tuple[int, int, int, int]](), list[str](), list[Block]()
        for record in _records(data):
            if record.kind == _MERGED:
                merged += self._until_damage(part, _merged(record))
            elif record.kind == _MARGINS:
                margins += margin_texts(self._until_damage(part, _margins(record)))
            elif record.kind == _RULE:
                messages += self._until_damage(part, _message(record))
        yield from render_rows(self._rows(part, data, Regions(merged)), has_gaps=True, payloads=self._package.payloads)
        yield from messages
        yield from drawn_on(self._package, part)
        yield from embedded_in(self._package, part, self._shown_files)
        yield from self._of_parts(part, "comments", _comments)
        for comments in self._package.related(part, "threadedComment"):
            yield from xml_comments(self._package, comments, self._people)
        yield from (Block(text) for text in dict.fromkeys(margins))

    def _rows(self, part: str, data: bytes, regions: Regions) -> Iterator[list[str]]:
        """Yields non-empty rows. One empty row stands for any number of missing rows, and separates declared tables."""
        borders = set(self._borders(part))
        number = before = self._unknown = 0
        cells: list[str] = []
        for record in _records(data):
            if record.kind in (_ROW, _END_OF_ROWS):
                while cells and not cells[-1]:
                    cells.pop()
                if cells:
                    if number != before + 1 or number in borders:
                        yield []
                    yield regions.fill(number, cells)
                    before, cells = number, []
                if record.kind == _END_OF_ROWS:
                    break
                number = min(record.numbers("I")[0], _MAX_ROW) + 1
            else:
                self._add_cell(record, cells)
        if self._unknown:
            self._package.note(part, f"The texts of {self._unknown:,} cells are missing.")

    def _borders(self, part: str) -> Iterator[int]:
        """The first rows of declared tables, and the rows after them."""
        for top, bottom in self._of_parts(part, "table", _tables):
            yield from (top + 1, bottom + 2)

    def _add_cell(self, record: _Record, cells: list[str]) -> None:
        kind = _SHORT.get(record.kind, _FORMULAS.get(record.kind, record.kind))
        if kind not in _CELLS:
            return
        at = 0 if record.kind in _SHORT else 4
        column = record.numbers("I")[0] if at else len(cells)
        style = record.numbers("I", at)[0] & 0xFFFFFF
        text = self._text(kind, record, at + 4, style)
        cells += [""] * (min(column, MAX_COLUMN - 1) - len(cells))
        cells.append(text)

    def _text(self, kind: int, record: _Record, at: int, style: int) -> str:
        """The text that the cell shows."""
        if kind == _BLANK:
            return ""
        if kind == _SHARED:
            (index,) = record.numbers("I", at)
            if index >= len(self._texts):
                self._unknown += 1
                return ""
            return self._formats.shown_text(self._texts[index], style)
        if kind in (_STRING, _RICH):
            return self._formats.shown_text(record.string(at + (kind == _RICH))[0], style)
        if kind == _BOOLEAN:
            return "TRUE" if record.numbers("B", at)[0] else "FALSE"
        if kind == _ERROR:
            return error_text(record.numbers("B", at)[0])
        value = (
            packed_number(record.numbers("i", at)[0]) if kind == _RK else struct.unpack_from("<d", record.body, at)[0]
        )
        return self._formats.shown(str(int(value)) if value.is_integer() else repr(value), style)


def _identity_and_name(record: _Record) -> tuple[str, str]:
    """The id of a sheet's relation, and its name, which end the record. They follow 8 bytes, and 12 in files of
    Excel 2007 before its release."""
    for at in (8, 12):
        with suppress(struct.error):
            identity, after = record.string(at)
            name, end = record.string(after)
            if end == len(record.body):
                return identity, name
    raise struct.error("The name of a sheet is cut off.")


def _shared_texts(records: Iterator[_Record]) -> Iterator[str]:
    for record in records:
        if record.kind == _TEXT:
            yield record.string(1)[0]


def _number_formats(records: Iterator[_Record]) -> Iterator[tuple[int, str | None]]:
    """The numbers of formats with their codes, and those of the styles of cells, in their order, without one."""
    is_of_cells = False
    for record in records:
        if record.kind == _FORMAT:
            yield record.numbers("H")[0], record.string(2)[0]
        elif record.kind == _STYLE:
            if is_of_cells:
                yield record.numbers("H", 2)[0], None
        elif record.kind in (_STYLES, _STYLES + 1):  # begin and end
            is_of_cells = record.kind == _STYLES


def _tables(records: Iterator[_Record]) -> Iterator[tuple[int, ...]]:
    """The first and the last row of each declared table, counted from 0."""
    for record in records:
        if record.kind == _TABLE:
            yield record.numbers("II")


def _merged(record: _Record) -> Iterator[tuple[int, int, int, int]]:
    """The left, top, right and bottom of merged cells, counted from 1."""
    top, bottom, left, right = record.numbers("IIII")
    yield left + 1, top + 1, right + 1, bottom + 1


def _margins(record: _Record) -> Iterator[str]:
    at = 2
    while at < len(record.body):
        text, at = record.string(at)
        yield text


def _message(record: _Record) -> Iterator[Block]:
    """The message of cells that have a rule for what may be entered."""
    flags, count = record.numbers("II")
    ranges = [record.numbers("IIII", 8 + 16 * at) for at in range(min(count, _MOST_RANGES))]
    at = 8 + 16 * count
    texts = []
    for _ in ("title of an error", "error", "title", "message"):
        text, at = record.string(at)
        texts.append(text)
    if flags & _SHOWS_MESSAGE:
        corners = ([cell_name(top, left), cell_name(bottom, right)] for top, bottom, left, right in ranges)
        yield from message_block(texts[2], texts[3], " ".join(":".join(dict.fromkeys(cells)) for cells in corners))


def _comments(records: Iterator[_Record]) -> Iterator[Block]:
    authors, author, cell = list[str](), "", ""
    for record in records:
        if record.kind == _AUTHOR:
            authors.append(record.string(0)[0])
        elif record.kind == _COMMENT:
            number, row, _, column = record.numbers("IIII")
            author = authors[number] if number < len(authors) else ""
            cell = cell_name(row, column)
        elif record.kind == _COMMENT_TEXT:
            yield from comment_block(cell, author, record.string(1)[0])
