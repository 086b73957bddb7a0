"""Excel workbooks: each row of a sheet becomes a paragraph (see grids.py); then text boxes, charts and comments."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from lxml import etree

from app.types.texts import ExtractedText
from ingest.readers.cell_dates import EPOCH, EPOCH_1904
from ingest.readers.cell_values import CellFormats
from ingest.readers.grids import SPANNED, render_rows
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import XLSX
from ingest.readers.members import ReadMember
from ingest.readers.ooxml import Walk
from ingest.readers.opc import DAMAGED_PART, Element, Package, attribute, first, local, refuse_entities
from ingest.readers.package import check_package
from ingest.readers.parts import Block, blocks_of
from ingest.readers.shown_files import ShownFiles, read_package
from ingest.readers.tables import join_blocks

_CELL = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_MERGED = re.compile(rb"""<(?:\w+:)?mergeCell\b[^>]{0,200}?\bref\s*=\s*["']([A-Z]+\d+):([A-Z]+\d+)["']""")
_CODES = re.compile(r'&(?:"[^"]*"|K[0-9A-F]{6}|\[\w+\]|\d+|[A-Z])', re.I)  # format codes in headers and footers
_LINE_END = re.compile(rb"<br\s*/?>", re.IGNORECASE)
_RECOVERING = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, remove_pis=True)
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_THREADED = "[Threaded comment]"
MAX_COLUMN = 16_384


def read_xlsx(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    """A workbook. `read_member` parses embedded files of Office that a sheet shows."""
    check_package(data, limits, kind="Excel workbook", folder="xl/")
    return read_package(data, limits, read_member, lambda package, files: _read(package, files, limits))


def _read(package: Package, files: ShownFiles, limits: ReadLimits) -> ExtractedText:
    title, metadata = package.properties()
    text, marks, cells = join_blocks(_Workbook(package, files).blocks(), limits)
    return ExtractedText(
        text, title=title, media_type=XLSX, metadata=metadata | package.notes(), marks=marks, cells=cells
    )


def under_heading(sheet: str, blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks of a sheet under its name; nothing if there are none."""
    begin = next(blocks, None)
    if begin is not None:
        yield Block(sheet if sheet.startswith("Sheet") else f"Sheet {sheet}", 1)
        yield begin
        yield from blocks


def people_of(package: Package, workbook: str) -> dict[str, str]:
    """The names of the authors of threaded comments, by their ids."""
    root = next(map(package.optional, package.related(workbook, "person")), None)
    persons = () if root is None else root.iter("{*}person")
    return {attribute(person, "id"): attribute(person, "displayName") for person in persons}


def drawn_on(package: Package, part: str) -> Iterator[Block]:
    """What is drawn on the sheet in `part`: text boxes, charts, SmartArt, and labels of form controls."""
    drawn = set[str]()
    for drawing in package.related(part, "drawing"):
        root = package.optional(drawing)
        for block in () if root is None else Walk(package, drawing).blocks(root):
            drawn.add(block.text)
            yield block
    for drawing in package.related(part, "vmlDrawing"):  # newer programs store form labels twice
        yield from (block for block in _labels(package, drawing) if block.text not in drawn)


def _labels(package: Package, part: str) -> Iterator[Block]:
    """Labels of form controls and text boxes; notes are parsed as comments. VML is often not well-formed."""
    try:
        root = etree.fromstring(_LINE_END.sub(b"\n", package.read(part)), _RECOVERING)
    except DAMAGED_PART as error:
        package.leave_out(part, error)
        return
    for shape in () if root is None else root.iter("{*}shape"):
        kind = attribute(first(shape, "ClientData"), "ObjectType")
        box = first(shape, "textbox")
        text = "" if box is None or kind == "Note" else " ".join("".join(box.itertext()).split())
        if text:
            yield Block(text)


def embedded_in(package: Package, part: str, shown_files: ShownFiles) -> Iterator[Block]:
    """The texts of files of Office that are embedded in the sheet in `part`."""
    for name in chain(package.related(part, "package"), package.related(part, "oleObject")):
        text = shown_files.text(name)
        if text is None:
            package.note(part, f"An embedded file is not read ({name}).")
        else:
            yield from blocks_of(text)


def xml_comments(package: Package, part: str, people: Mapping[str, str]) -> Iterator[Block]:
    """The comments in an XML part, threaded or not. `people` are the authors of threaded ones."""
    root = package.optional(part)
    if root is None:
        return
    authors = [author.text or "" for author in root.iter("{*}author")]
    for comment in root.iter("{*}comment", "{*}threadedComment"):
        body = first(comment, "text")
        text = "" if body is None else _text_of(body) or (body.text or "")
        number = attribute(comment, "authorId")
        author = authors[int(number)] if number.isdecimal() and int(number) < len(authors) else ""
        author = author or people.get(attribute(comment, "personId"), "")
        yield from comment_block(attribute(comment, "ref"), author, text)


def cell_name(row: int, column: int) -> str:
    """The name of a cell, such as `B3`; row and column are counted from 0."""
    letters, column = "", min(column, MAX_COLUMN) + 1
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return f"{letters}{row + 1}"


def comment_block(cell: str, author: str, text: str) -> Iterator[Block]:
    """The block of a comment; none for an empty one, and for a copy of a threaded comment for older programs."""
    if text.strip() and not text.startswith(_THREADED):
        by = f" by {author}" if author and not text.startswith(author) else ""
        yield Block(f"Comment on {cell}{by}: {text.strip()}")


def message_block(title: str, text: str, cells: str = "") -> Iterator[Block]:
    """The block of the message that a sheet shows where a cell is chosen; none for an empty one."""
    shown = ": ".join(filter(None, (" ".join(each.split()) for each in (title, text))))
    if shown:
        yield Block(f"Message on {cells}: {shown}" if cells else f"Message: {shown}")


def margin_texts(texts: Iterable[str]) -> list[str]:
    """Headers and footers of printed pages, without the codes of formats, page numbers and dates."""
    return [margin for text in texts if any(map(str.isalnum, margin := " ".join(_CODES.sub(" ", text).split())))]


class _Workbook:
    def __init__(self, package: Package, shown_files: ShownFiles) -> None:
        self._package = package
        self._shown_files = shown_files
        self._part = package.main_part("xl/workbook.xml")
        self._root = package.root(self._part)
        strings = self._first("sharedStrings")
        self._strings = [] if strings is None else [_text_of(item) for item in strings.iterchildren("{*}si")]
        properties = first(self._root, "workbookPr")
        has_1904 = attribute(properties, "date1904") in ("1", "true", "on")
        self._formats = CellFormats.of_styles(self._first("styles"), epoch=EPOCH_1904 if has_1904 else EPOCH)
        self._people = people_of(package, self._part)

    def blocks(self) -> Iterator[Block]:
        relations = self._package.relations(self._part)
        sheets = first(self._root, "sheets")
        for sheet in () if sheets is None else sheets.iterchildren("{*}sheet"):
            identity = next((value for key, value in sheet.attrib.items() if key.endswith("}id")), "")
            if identity in relations:
                yield from under_heading(attribute(sheet, "name"), self._sheet(relations[identity].target))

    def _first(self, kind: str) -> Element | None:
        return next(map(self._package.optional, self._package.related(self._part, kind)), None)

    def _sheet(self, part: str) -> Iterator[Block]:
        data = self._package.read(part)
        margins, messages = list[str](), list[Block]()
        yield from render_rows(
            self._rows(part, data, margins, messages), has_gaps=True, payloads=self._package.payloads
        )
        yield from messages
        yield from drawn_on(self._package, part)
        yield from embedded_in(self._package, part, self._shown_files)
        for name in chain(self._package.related(part, "comments"), self._package.related(part, "threadedComment")):
            yield from xml_comments(self._package, name, self._people)
        yield from (Block(text) for text in dict.fromkeys(margins))

    def _rows(self, part: str, data: bytes, margins: list[str], messages: list[Block]) -> Iterator[list[str]]:
        """Yields non-empty rows. One empty row stands for any number of missing rows, and separates declared tables."""
        regions = Regions(_merged_in(data))
        borders = set(self._borders(part))
        unknown = before = 0
        parser = etree.iterparse(
            io.BytesIO(data),
            tag=("{*}row", "{*}headerFooter", "{*}dataValidation"),
            resolve_entities=False,
            no_network=True,
        )
        for _, element in parser:
            if local(element) == "headerFooter":
                margins += margin_texts(node.text or "" for node in element)
                continue
            if local(element) == "dataValidation":
                messages += _message_of(element)
                continue
            refuse_entities(element)
            declared = element.get("r", "")
            number = int(declared) if declared.isdecimal() else before + 1
            if number != before + 1 or number in borders:
                yield []
            cells: list[str] = []
            for cell in element.iterchildren("{*}c"):
                column = _column(cell.get("r", "")) or len(cells) + 1
                text = self._text(cell)
                unknown += text is None
                cells += [""] * (min(column, MAX_COLUMN) - len(cells) - 1)
                cells.append(text or "")
            yield regions.fill(number, cells)
            before = number
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
        if unknown:
            self._package.note(part, f"Formulas without a value that are not read: {unknown:,}.")

    def _borders(self, part: str) -> Iterator[int]:
        """The first rows of declared tables, and the rows after them."""
        for name in self._package.related(part, "table"):
            root = self._package.optional(name)
            ends = _CELL.findall(attribute(root, "ref"))
            if len(ends) == 2:
                yield int(ends[0][1])
                yield int(ends[1][1]) + 1

    def _text(self, cell: Element) -> str | None:
        """The text that the cell shows. None if only a calculation would give it."""
        kind, text = cell.get("t", ""), ""
        formula: Element | None = None
        inline: Element | None = None
        for child in cell:
            name = local(child)
            if name == "v":
                text = child.text or ""
            elif name == "f":
                formula = child
            elif name == "is":
                inline = child
        if kind == "s" and text.isdecimal():
            text = self._strings[int(text)] if int(text) < len(self._strings) else ""
            return self._formats.shown_text(text, _style(cell))
        if kind == "inlineStr":
            return "" if inline is None else self._formats.shown_text(_text_of(inline), _style(cell))
        if not text and formula is not None and kind != "str":
            return f"={formula.text}" if formula.text else None
        if kind == "b":
            return "TRUE" if text == "1" else "FALSE"
        if kind in ("str", "e", "d"):
            return text.removesuffix("T00:00:00") if kind == "d" else text
        return self._formats.shown(text, _style(cell))


def _style(cell: Element) -> int:
    """The index of the cell's style; -1 for none."""
    style = cell.get("s", "")
    return int(style) if style.isdecimal() else -1


def _message_of(rule: Element) -> Iterator[Block]:
    if attribute(rule, "showInputMessage") in ("1", "true"):
        cells = attribute(rule, "sqref")
        title, text = (_unescaped(attribute(rule, name)) for name in ("promptTitle", "prompt"))
        yield from message_block(title, text, cells)


def _merged_in(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    for begin, end in _MERGED.findall(data):
        (left, top), (right, bottom) = (_CELL.findall(corner.decode("ascii"))[0] for corner in (begin, end))
        yield _column(left), int(top), _column(right), int(bottom)


class Regions:
    """Merged cells: the text of the first cell is repeated in each of its rows, once per row.

    `merged`: left, top, right and bottom of each, counted from 1.
    """

    def __init__(self, merged: Iterable[tuple[int, int, int, int]]) -> None:
        self._starts: dict[int, list[tuple[int, int, int]]] = {}
        for left, top, right, bottom in merged:
            self._starts.setdefault(top, []).append((left, min(right, MAX_COLUMN), bottom))
        self._open: list[tuple[int, int, int, str]] = []

    def fill(self, number: int, cells: list[str]) -> list[str]:
        self._open = [region for region in self._open if region[2] >= number]
        for left, right, _, text in self._open:
            _put(cells, left, right, text)
        for left, right, bottom in self._starts.get(number, ()):
            text = cells[left - 1] if left <= len(cells) else ""
            if text:
                _put(cells, left, right, text)
                if bottom > number:
                    self._open.append((left, right, bottom, text))
        return cells


def _put(cells: list[str], left: int, right: int, text: str) -> None:
    cells += [""] * (right - len(cells))
    cells[left - 1 : right] = [text, *[SPANNED] * (right - left)]


def _column(reference: str) -> int:
    """The number of the column in a cell reference, 1 for A; 0 if it is invalid."""
    number = 0
    for letter in reference.rstrip("0123456789"):
        number = number * 26 + ord(letter) - ord("A") + 1
    return number if 0 < number <= MAX_COLUMN else 0


def _unescaped(text: str) -> str:
    """Text with the characters that a workbook writes as `_x000D_`, since XML cannot hold them."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _text_of(element: Element) -> str:
    """The text without phonetic guides."""
    texts = [_unescaped(node.text or "") for node in element.iter("{*}t") if local(node.getparent()) != "rPh"]
    return "".join(texts)
