"""Office formats from before 2007 (doc, ppt, xls), with libraries of the extra `office`."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from itertools import chain
from typing import Any, Literal

from app.errors import DocumentError, ServerLimitError
from app.types.documents import MetadataValue
from app.types.texts import ExtractedText
from ingest.readers.binary_sheets import is_binary_workbook, read_xlsb
from ingest.readers.doc_lists import DocLabels, packed
from ingest.readers.embedded_objects import EmbeddedObjects, SlideObjects
from ingest.readers.grids import SPANNED, render_rows
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import DOC, PPT, XLS
from ingest.readers.members import ReadMember
from ingest.readers.package import iso_date
from ingest.readers.parts import Block
from ingest.readers.payloads import Payloads
from ingest.readers.sheets import under_heading
from ingest.readers.shown_files import ShownFiles, fitted
from ingest.readers.slide_texts import beside_slides
from ingest.readers.slides import check_slides, join_pages
from ingest.readers.slides_of_1995 import blocks_of_1995
from ingest.readers.tables import join_blocks
from ingest.readers.text import raised
from ingest.readers.xls_cells import XlsCells
from ingest.readers.xls_drawings import MARGINS, XlsDrawings, graph_blocks
from ingest.readers.xls_records import Sheet, XlsRecords, without_formats

try:
    from office_oxide import Document, OfficeOxideError
    from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook, PasswordError
except ImportError:
    Document = None  # type: ignore[assignment, misc]

_WORD = re.compile(r"[^\W\d_]{2}")
_MOST_SOUGHT = 10**9  # characters scanned for missing parts, in total
_BETWEEN = re.compile(r"\n|[;:.!?]")
_SIGN = re.compile(r"\w")
_NOTES = "Notes: "
# Placeholders that office-oxide writes for embedded objects.
_OBJECT = re.compile(r"\[?Embedded (?:OLE object|sound|video|Microsoft .{1,60})\]?", re.IGNORECASE)


def read_doc(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    """A Word document. `read_member` parses files of Office that it shows. Raises DocumentError, as do `read_ppt` and
    `read_xls`: damaged, protected, or no `office` extra."""
    sections, title, metadata, shown = _parsed(data, "doc", "Word document")
    labels = DocLabels(data)
    blocks = [block for section in sections for block in _blocks(section["elements"], labels.shown)]
    missing = _missing(shown, [*blocks, *map(Block, labels.numbered)])
    blocks += [Block(labels.shown(block.text)) for block in missing]
    blocks += map(Block, labels.of_fields_alone)
    lists = 0 if labels.is_known else _count(sections, _is_list)
    title = next((block.text for block in blocks if block.level), title)
    objects, files = EmbeddedObjects(data), ShownFiles(limits, read_member)
    placeholders = _count(sections, _is_embedded)

    def attempt(characters: int) -> ExtractedText:
        objects.left_out.clear()
        embedded, read, unread = objects.blocks(files.within(objects, characters))
        unread = max(unread, placeholders - read)
        text, marks, cells = join_blocks([*blocks, *embedded], limits)
        notes = _notes(objects.left_out, embedded=unread, lists=lists, numbers=labels.unused)
        return ExtractedText(text, title, DOC, metadata | notes, marks=marks, cells=cells)

    return fitted(attempt, files, limits)


def read_ppt(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    sections, title, metadata, _ = _parsed(data, "ppt", "PowerPoint presentation")
    check_slides(sections, limits)
    objects, files = SlideObjects(data, limits.max_expanded_bytes), ShownFiles(limits, read_member)
    pages = [
        [
            *_blocks(slide["elements"]),
            *(Block(_NOTES + note.text) for note in _blocks(slide.get("speaker_notes") or ())),
        ]
        for slide in sections
    ]
    _add_beside(pages, beside_slides(objects))
    title = next((block.text for page in pages for block in page if block.level), title)
    if not any(pages) and (texts := blocks_of_1995(data)):
        joined = join_blocks(texts, limits)
        return ExtractedText(joined.text, title or texts[0].text.split("\n")[0], PPT, metadata, marks=joined.marks)
    placeholders = [_count(slide, _is_embedded) for slide in sections]

    def attempt(characters: int) -> ExtractedText:
        objects.left_out.clear()
        files.within(objects, characters)
        embedded = [objects.blocks(number, files) for number in range(len(pages))]
        unread = sum(max(others, placeholders[at] - read) for at, (_, read, others) in enumerate(embedded))
        joined = join_pages([[*page, *more] for page, (more, _, _) in zip(pages, embedded, strict=True)], limits)
        notes: dict[str, MetadataValue] = {"pages": len(pages), **_notes(objects.left_out, embedded=unread)}
        return ExtractedText(joined.text, title, PPT, metadata | notes, joined.page_starts, joined.marks, joined.cells)

    return fitted(attempt, files, limits)


def read_xls(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    """A workbook: xls, Excel 4, or xlsb, which is a zip archive."""
    if is_binary_workbook(data):
        return read_xlsb(data, limits, read_member)
    _require()
    records = XlsRecords(data)
    if records.is_encrypted:
        raise _protected("Excel workbook")
    if records.is_graph:
        graph = chain.from_iterable(map(records.records, records.sheets))
        text, marks, cells = join_blocks(graph_blocks(graph), limits)
        return ExtractedText(text, "", XLS, marks=marks, cells=cells)
    try:
        try:
            blocks, payloads = _blocks_of_sheets(data, records)
        except (OverflowError, DocumentError):  # the library makes dates of numbers that are none
            blocks, payloads = _blocks_of_sheets(without_formats(data), records)
    except PasswordError as error:
        raise _protected("Excel workbook") from error
    except CalamineError as error:
        blocks, payloads = list(_of_excel_4(data, error)), Payloads()
    else:
        if not records.is_whole:
            blocks += _missing(_plain_text(data), blocks, _WORD)  # words only: numbers may be formatted differently
    objects, files = EmbeddedObjects(data), ShownFiles(limits, read_member)

    def attempt(characters: int) -> ExtractedText:
        objects.left_out.clear()
        embedded, _, unread = objects.blocks(files.within(objects, characters))
        text, marks, cells = join_blocks([*blocks, *embedded], limits)
        notes = payloads.skipped.added_to(_notes(objects.left_out, embedded=unread))
        return ExtractedText(text, "", XLS, notes, marks=marks, cells=cells)

    return fitted(attempt, files, limits)


def _parsed(
    data: bytes, form: Literal["doc", "ppt"], kind: str
) -> tuple[list[Mapping[str, Any]], str, dict[str, MetadataValue], str]:
    """The sections, title and metadata of a document, and its plain text, which has parts that the sections lack."""
    _require()
    try:
        with _Panics(kind):
            document = Document.from_bytes(data, form)
            structure, shown = document.to_ir(), document.plain_text()
    except OfficeOxideError as error:
        raise (_protected(kind) if "password" in str(error) else _damaged(kind, error)) from error
    properties = structure["metadata"]
    values = [("author", properties.get("author")), ("created", iso_date(properties.get("created") or ""))]
    values.append(("modified", iso_date(properties.get("modified") or "")))
    metadata: dict[str, MetadataValue] = {key: value for key, value in values if value}
    return structure["sections"], properties.get("title") or "", metadata, shown


def _add_beside(pages: list[list[Block]], beside: Mapping[int, list[Block]]) -> None:
    """Adds to each page the blocks of its slide that the page lacks. Adds a block of several slides to the first."""
    added, left = set[str](), _MOST_SOUGHT
    for number, blocks in sorted(beside.items()):
        if number >= len(pages):
            continue
        shown = "".join(packed(block.text.removeprefix(_NOTES)) for block in pages[number])
        for block in blocks:
            own = packed(block.text.removeprefix(_NOTES))
            left -= len(shown)
            if own not in added and (left < 0 or own not in shown):
                added.add(own)
                pages[number].append(block)


def _notes(
    left_out: Sequence[str] = (), *, embedded: int, lists: int = 0, numbers: int = 0
) -> dict[str, MetadataValue]:
    """Notes about embedded objects, lists and automatic numbers that are not read, as many as there are, and about what
    embedded files themselves leave out."""
    notes = [_object_notes(embedded)] if embedded else []
    notes += [_list_notes(lists)] if lists else []
    notes += [_number_notes(numbers)] if numbers else []
    notes += left_out
    count = embedded + lists + numbers + len(left_out)
    return {"skipped_parts": count, "skipped": "\n".join(notes)} if notes else {}


def _object_notes(count: int) -> str:
    return f"Embedded objects that are not read: {count}."


def _list_notes(count: int) -> str:
    return f"Lists whose automatic numbers or bullets are not read: {count}."


def _number_notes(count: int) -> str:
    return f"Automatic numbers that are not read: {count}."


def _count(part: Any, is_counted: Callable[[Mapping[str, Any]], bool]) -> int:
    """The number of elements of a kind in a part; those within such an element do not count."""
    if isinstance(part, list):
        return sum(_count(each, is_counted) for each in part)
    if not isinstance(part, dict):
        return 0
    return 1 if is_counted(part) else sum(_count(each, is_counted) for each in part.values())


def _is_embedded(element: Mapping[str, Any]) -> bool:
    """Whether it is an embedded object of another program."""
    return element.get("type") == "image" and bool(_OBJECT.fullmatch(element.get("alt_text") or ""))


def _is_list(element: Mapping[str, Any]) -> bool:
    return element.get("type") == "list"


def _missing(shown: str, blocks: Sequence[Block], sought: re.Pattern[str] = _SIGN) -> list[Block]:
    """Lines of the plain text that the blocks lack: headers, footers, notes, words of charts."""
    own = {part for block in blocks for part in _packed_parts(block.text)}
    whole = "".join(packed(block.text) for block in blocks)
    left = _MOST_SOUGHT
    missing: dict[str, None] = {}
    for line in re.split(r"[\n\t]", shown):
        if not sought.search(line) or _OBJECT.fullmatch(line.strip()):
            continue
        unknown = [part for part in _packed_parts(line) if part not in own]
        if unknown and (left := left - len(whole)) < 0:
            break  # too expensive; with so many parts that differ only in their cuts, the blocks have everything
        if any(part not in whole for part in unknown):
            missing[" ".join(line.split())] = None
    return list(map(Block, missing))


def _packed_parts(text: str) -> Iterator[str]:
    """Letters and digits of each sentence or value: comparable although cells are cut and joined differently."""
    return filter(None, map(packed, _BETWEEN.split(text)))


def _plain_text(data: bytes) -> str:
    try:
        with _Panics("Excel workbook"):
            return str(Document.from_bytes(data, "xls").plain_text())
    except (OfficeOxideError, DocumentError):  # the other library has parsed the cells
        return ""


def _of_excel_4(data: bytes, error: CalamineError) -> Iterator[Block]:
    """Rows of a workbook from before 1993. Raises DocumentError if this library cannot parse it either."""
    if not (shown := _plain_text(data)).strip():
        raise _damaged("Excel workbook", error) from error
    yield from render_rows((line.split("\t") for line in shown.split("\n")), has_gaps=True)


def _as_it_is(text: str) -> str:
    return text


def _blocks(elements: Iterable[Mapping[str, Any]], shown: Callable[[str], str] = _as_it_is) -> Iterator[Block]:
    """The blocks of elements. `shown` returns a paragraph with this text as Word shows it."""
    for element in elements:
        kind = element.get("type")
        if kind in ("heading", "paragraph"):
            text = "".join(_inline(element.get("content") or ())).strip()
            if text:
                yield Block(shown(text), min(element.get("level", 1), 6) if kind == "heading" else None)
        elif kind == "table":
            yield from render_rows(_row(row, shown) for row in element.get("rows") or ())
        elif kind == "image":
            alternative = (element.get("alt_text") or "").strip()
            if alternative and not _OBJECT.fullmatch(alternative):
                yield Block(f"Picture: {alternative}")
        elif kind in ("footnote", "endnote"):
            name = element.get("marker") or kind.capitalize()
            yield from (Block(f"{name}: {block.text}") for block in _blocks(element.get("content") or (), shown))
        else:  # lists, their items, text boxes
            for name in ("content", "items", "nested"):
                inner = element.get(name) or ()
                yield from _blocks(inner if isinstance(inner, list) else [inner] if inner else (), shown)


def _inline(content: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for part in content:
        text = "\n" if part.get("type") == "line_break" else part.get("text") or ""
        yield raised(text) if part.get("vertical_align") == "superscript" else text


def _row(row: Mapping[str, Any], shown: Callable[[str], str]) -> list[str]:
    cells: list[str] = []
    for cell in row.get("cells") or ():
        cells.append("\n".join(block.text for block in _blocks(cell.get("content") or (), shown)))
        cells += [SPANNED] * (min(cell.get("col_span") or 1, 64) - 1)
    return cells


def _blocks_of_sheets(data: bytes, records: XlsRecords) -> tuple[list[Block], Payloads]:
    payloads = Payloads()
    with _Panics("Excel workbook"), CalamineWorkbook.from_filelike(io.BytesIO(data)) as workbook:
        return list(_sheets(workbook, records, payloads)), payloads


def _sheets(workbook: CalamineWorkbook, records: XlsRecords, payloads: Payloads) -> Iterator[Block]:
    names = workbook.sheet_names
    sheets = records.sheets if len(records.sheets) == len(names) else [None] * len(names)
    for name, sheet in zip(names, sheets, strict=True):
        cells, drawings = _recorded(records, sheet)
        rows = _rows(workbook.get_sheet_by_name(name), cells)
        blocks = render_rows(rows, has_gaps=True, payloads=payloads)
        yield from under_heading(name, chain(blocks, drawings.blocks()))


def _recorded(records: XlsRecords, sheet: Sheet | None) -> tuple[XlsCells, XlsDrawings]:
    """What the records of a sheet say of its cells, and of what stands beside them; nothing without a sheet."""
    cells, drawings = XlsCells(records), XlsDrawings()
    if sheet is None:
        records.is_whole = False
        return cells, drawings
    for record in records.records(sheet):
        try:
            is_of_cells = record.depth == 1 and sheet.is_worksheet and cells.add(record)
            if not is_of_cells and (records.is_biff_8 or record.kind in MARGINS):
                drawings.add(record)
        except struct.error:
            records.is_whole = False
    return cells, drawings


def _rows(sheet: CalamineSheet, recorded: XlsCells) -> Iterator[list[str]]:
    top, left = sheet.start or (0, 0)
    regions = [(r1 - top, c1 - left, r2 - top, c2 - left) for (r1, c1), (r2, c2) in sheet.merged_cell_ranges or ()]
    texts: dict[tuple[int, int], str] = {}
    for number, row in enumerate(sheet.to_python()):
        cells = [
            _shown(value) if (text := recorded.shown(number + top, column + left, value)) is None else text
            for column, value in enumerate(row)
        ]
        for r1, c1, r2, c2 in regions:
            if r1 <= number <= r2 and 0 <= c1 < len(cells):
                text = texts.setdefault((r1, c1), cells[c1])
                if text:
                    end = min(c2 + 1, len(cells))
                    cells[c1:end] = [text, *[SPANNED] * (end - c1 - 1)]
        yield cells


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime):
        value = (value + timedelta(microseconds=500_000)).replace(microsecond=0)
        value = value.date() if value.time() == time() else value
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _require() -> None:
    if Document is None:
        raise ServerLimitError(
            "Office files from before 2007 need libraries that are not installed. Run pip install "
            "'gircse-search[office]' on the server, then retry all failed documents; or save the file in a current "
            "format."
        )


def _protected(kind: str) -> DocumentError:
    return DocumentError(f"This {kind} is protected by a password. Save a copy without one and add that.")


def _damaged(kind: str, error: Exception) -> DocumentError:
    return DocumentError(
        f"This {kind} is damaged ({error}). Open it and save it again, preferably in a current format."
    )


class _Panics:
    """Turns a panic of a Rust library into a DocumentError. Its class derives from BaseException and is not
    exported."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is not None and kind.__name__ == "PanicException":
            raise _damaged(self._kind, RuntimeError(str(error))) from error
